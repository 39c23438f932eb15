"""Registries of the parts that a configuration may ask for by name."""


class Registry(dict):
    def __init__(self, kind):
        super().__init__()
        self.kind = kind

    def register(self, name):
        def keep(thing):
            if name in self:
                raise KeyError(f"{self.kind} {name!r} is registered twice")
            self[name] = thing
            return thing

        return keep

    def build(self, spec, **more):
        spec = dict(spec)
        name = spec.pop("type")
        if name not in self:
            raise KeyError(f"no {self.kind} {name!r}; there are {sorted(self)}")
        return self[name](**spec, **more)


TOKENS = Registry("tokens")
WEEKS = Registry("weeks")
HEADS = Registry("head")
LOSSES = Registry("loss")
SCHEDULES = Registry("schedule")
