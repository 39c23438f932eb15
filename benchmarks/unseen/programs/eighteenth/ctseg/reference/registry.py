import json
from pathlib import Path

HERE = Path(__file__).resolve().parent
DATA = HERE.parent / "data"
CONFIG = json.loads((HERE / "config.json").read_text())
_BUILDERS = {}


def register(cls):
    _BUILDERS[cls.__name__] = cls
    return cls


def build(section):
    options = dict(CONFIG[section])
    return _BUILDERS[options.pop("name")](**options)
