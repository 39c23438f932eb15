"""A name -> class table, so that config.json decides what is built."""


class Registry:
    def __init__(self, kind):
        self.kind = kind
        self.table = {}

    def register(self, item):
        if item.__name__ in self.table:
            raise KeyError(f"{self.kind} {item.__name__} is registered twice")
        self.table[item.__name__] = item
        return item

    def build(self, cfg, **extra):
        cfg = dict(cfg)
        name = cfg.pop("type")
        if name not in self.table:
            raise KeyError(f"no {self.kind} named {name}; known are {sorted(self.table)}")
        return self.table[name](**cfg, **extra)


BLOCKS = Registry("block")
MODELS = Registry("model")
LOSSES = Registry("loss")
OPTIMIZERS = Registry("optimizer")
SCHEDULES = Registry("schedule")
