import os
import tomllib
from types import SimpleNamespace

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(os.path.dirname(HERE), "data")


def load(name="settings.toml"):
    with open(os.path.join(HERE, name), "rb") as f:
        return SimpleNamespace(**{k: SimpleNamespace(**v) for k, v in tomllib.load(f).items()})


cfg = load()
