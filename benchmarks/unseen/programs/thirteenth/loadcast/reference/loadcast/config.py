import tomllib
from pathlib import Path
from types import SimpleNamespace


def load(name="settings.toml"):
    with open(Path(__file__).resolve().parents[1] / name, "rb") as f:
        tree = tomllib.load(f)
    return SimpleNamespace(**{k: SimpleNamespace(**v) for k, v in tree.items()})
