"""A tiny registry: names in config.json -> classes and functions."""


class Registry:
    def __init__(self, kind):
        self.kind = kind
        self._entries = {}

    def register(self, name):
        def wrap(entry):
            if name in self._entries:
                raise KeyError("%s %r registered twice" % (self.kind, name))
            self._entries[name] = entry
            return entry

        return wrap

    def build(self, cfg, *args):
        cfg = dict(cfg)
        name = cfg.pop("type")
        if name not in self._entries:
            raise KeyError("no %s called %r; there are %s" % (self.kind, name, sorted(self._entries)))
        return self._entries[name](*args, **cfg)


ENCODERS = Registry("encoder")
POOLS = Registry("pool")
HEADS = Registry("head")
LOSSES = Registry("loss")
OPTIMIZERS = Registry("optimizer")
SCHEDULES = Registry("schedule")
