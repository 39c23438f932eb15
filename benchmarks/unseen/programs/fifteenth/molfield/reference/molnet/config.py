import tomllib
from pathlib import Path
from types import SimpleNamespace

REFERENCE = Path(__file__).resolve().parents[1]
DATA = REFERENCE.parent / "data"


def load(path=REFERENCE / "settings.toml"):
    with open(path, "rb") as f:
        raw = tomllib.load(f)
    return SimpleNamespace(**{k: SimpleNamespace(**v) for k, v in raw.items()})


CFG = load()
