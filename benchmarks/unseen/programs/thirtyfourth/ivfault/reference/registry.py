"""A registry of classes that configuration files name by ``type``."""


class Registry:
    def __init__(self, title):
        self.title = title
        self._entries = {}

    def register(self, name=None):
        def wrap(obj):
            key = name or obj.__name__
            if key in self._entries:
                raise KeyError(f"{key} is already in {self.title}")
            self._entries[key] = obj
            return obj
        return wrap

    def build(self, cfg, **extra):
        cfg = dict(cfg)
        kind = cfg.pop("type")
        if kind not in self._entries:
            raise KeyError(f"{self.title} has no {kind}: {sorted(self._entries)}")
        return self._entries[kind](**cfg, **extra)


BLOCKS = Registry("blocks")
POOLS = Registry("pools")
MODELS = Registry("models")
LOSSES = Registry("losses")
OPTIMS = Registry("optimizers")
SCHEDULES = Registry("schedules")
