import json
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace


class Registry(dict):
    def register(self, name):
        def wrap(obj):
            self[name] = obj
            return obj
        return wrap


PREPROCESS = Registry()
MODELS = Registry()
CONFIG = json.loads(Path(__file__).with_name("config.json").read_text(), object_hook=lambda d: SimpleNamespace(**d))
