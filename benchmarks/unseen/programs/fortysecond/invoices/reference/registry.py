"""Names for classes and functions, so that a configuration can ask for them."""
import json
import os

HERE = os.path.dirname(os.path.abspath(__file__))


class Registry:
    def __init__(self, what):
        self.what, self.entries = what, {}

    def register(self, entry):
        self.entries[entry.__name__] = entry
        return entry

    def build(self, config, *args, **more):
        config = dict(config)
        name = config.pop("type")
        if name not in self.entries:
            raise KeyError(f"no {self.what} is called {name}: {sorted(self.entries)}")
        return self.entries[name](*args, **config, **more)


MODULES = Registry("module")
LOSSES = Registry("loss")
OPTIMIZERS = Registry("optimizer")
SCHEDULES = Registry("schedule")

with open(os.path.join(HERE, "config.json")) as f:
    CONFIG = json.load(f)
