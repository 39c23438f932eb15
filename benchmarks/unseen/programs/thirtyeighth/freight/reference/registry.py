"""A registry for each family of parts; the configuration names the part it wants."""


class Registry:
    def __init__(self, family):
        self.family = family
        self.parts = {}

    def register(self, name):
        def keep(part):
            if name in self.parts:
                raise KeyError(f"{self.family}: {name} is registered twice")
            self.parts[name] = part
            return part

        return keep

    def build(self, config, *args, **kwargs):
        config = dict(config)
        name = config.pop("name")
        if name not in self.parts:
            raise KeyError(f"{self.family}: {name} is unknown, there are {sorted(self.parts)}")
        return self.parts[name](*args, **config, **kwargs)


ENCODERS = Registry("encoder")
MIXERS = Registry("mixer")
SCORERS = Registry("scorer")
TRANSPORTS = Registry("transport")
MODELS = Registry("model")
LOSSES = Registry("loss")
OPTIMIZERS = Registry("optimizer")
SCHEDULES = Registry("schedule")
