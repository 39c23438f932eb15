class Registry:
    """Names to classes; `build({"type": name, ...})` makes one."""

    def __init__(self, kind):
        self.kind = kind
        self.entries = {}

    def register(self, name=None):
        def add(cls):
            key = name or cls.__name__
            if key in self.entries:
                raise KeyError(f"{self.kind} {key} is there already")
            self.entries[key] = cls
            return cls

        return add

    def build(self, config, *args, **extra):
        options = dict(config)
        kind = options.pop("type")
        if kind not in self.entries:
            raise KeyError(f"no {self.kind} of the name {kind}")
        return self.entries[kind](*args, **{**extra, **options})


MODELS = Registry("model")
LOSSES = Registry("loss")
TRANSFORMS = Registry("transform")
SCHEDULES = Registry("schedule")
