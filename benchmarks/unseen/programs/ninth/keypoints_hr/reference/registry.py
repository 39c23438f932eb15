"""Plug-ins by name: {"type": "Name", ...} becomes Name(...)."""
import json
import os

HERE = os.path.dirname(os.path.abspath(__file__))

with open(os.path.join(HERE, "experiment.json")) as handle:
    EXPERIMENT = json.load(handle)


class Registry:
    def __init__(self, kind):
        self.kind = kind
        self.entries = {}

    def register(self, entry):
        if entry.__name__ in self.entries:
            raise KeyError(f"{self.kind} {entry.__name__} is registered already")
        self.entries[entry.__name__] = entry
        return entry

    def build(self, config):
        arguments = dict(config)
        return self.entries[arguments.pop("type")](**arguments)


MODELS = Registry("model")
TRANSFORMS = Registry("transform")
LOSSES = Registry("loss")
