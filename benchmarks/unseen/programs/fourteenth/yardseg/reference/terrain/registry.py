class Registry:
    def __init__(self, kind):
        self.kind, self.entries = kind, {}

    def register(self, cls):
        self.entries[cls.__name__] = cls
        return cls

    def build(self, spec, **extra):
        args = dict(spec)
        name = args.pop("type")
        if name not in self.entries:
            raise KeyError(f"no {self.kind} called {name}")
        return self.entries[name](**args, **extra)


BACKBONES = Registry("backbone")
HEADS = Registry("head")
