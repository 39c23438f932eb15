"""A registry for each kind of part; the plan names the parts."""


class Registry:
    def __init__(self, kind):
        self.kind = kind
        self.entries = {}

    def register(self, name):
        def keep(thing):
            if name in self.entries:
                raise KeyError(f"{self.kind} {name} is there already")
            self.entries[name] = thing
            return thing

        return keep

    def build(self, name, *args, **kwargs):
        if name not in self.entries:
            raise KeyError(f"no {self.kind} called {name}; there are {sorted(self.entries)}")
        return self.entries[name](*args, **kwargs)


ENCODERS = Registry("encoder")
EXCHANGES = Registry("exchange")
COMBINERS = Registry("combiner")
TIMERS = Registry("timer")
SCHEDULES = Registry("schedule")
