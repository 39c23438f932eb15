import json
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "data"


def load_config(path=DATA / "settings.json"):
    """The settings as an object: cfg.optim.lr and so on."""
    with open(path) as f:
        return json.load(f, object_hook=lambda d: SimpleNamespace(**d))


cfg = load_config()
