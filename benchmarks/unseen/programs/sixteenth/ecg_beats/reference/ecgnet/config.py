"""Settings of the experiment, read from data/settings.json."""
import json
from pathlib import Path
from types import SimpleNamespace

DATA = Path(__file__).resolve().parents[2] / "data"


def _namespace(value):
    if isinstance(value, dict):
        return SimpleNamespace(**{key: _namespace(item) for key, item in value.items()})
    return value


def load_config(path=None):
    with open(path or DATA / "settings.json") as handle:
        raw = json.load(handle)
    config = _namespace({key: raw[key] for key in raw if key not in ("classes", "splits")})
    config.classes = raw["classes"]
    config.splits = raw["splits"]
    config.symbol_to_class = {
        symbol: index for index, symbols in enumerate(raw["classes"].values()) for symbol in symbols
    }
    return config
