import json
from pathlib import Path

HERE = Path(__file__).resolve().parent


def _merge(base, over):
    out = dict(base)
    for key, value in over.items():
        if isinstance(value, dict) and isinstance(out.get(key), dict):
            out[key] = _merge(out[key], value)
        else:
            out[key] = value
    return out


def load(name):
    with open(HERE / "configs" / name) as handle:
        cfg = json.load(handle)
    parent = cfg.pop("_base_", None)
    return _merge(load(parent), cfg) if parent else cfg
