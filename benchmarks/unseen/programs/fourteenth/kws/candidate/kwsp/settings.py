import json
import os
from types import SimpleNamespace

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.normpath(os.path.join(HERE, "..", "..", "data"))


def _wrap(obj):
    if isinstance(obj, dict):
        return SimpleNamespace(**{k: _wrap(v) for k, v in obj.items()})
    return obj


def load(path=None):
    path = path or os.path.join(HERE, "..", "settings.json")
    with open(path, encoding="utf-8") as fh:
        return _wrap(json.load(fh))


S = load()
