import json
from pathlib import Path
from types import SimpleNamespace

HERE = Path(__file__).resolve().parent
BLOCKS = {}


def register(name):
    def add(cls):
        BLOCKS[name] = cls
        return cls
    return add


def load_config(path=HERE / "config.json"):
    raw = json.loads(Path(path).read_text())
    return SimpleNamespace(**{k: SimpleNamespace(**v) for k, v in raw.items()})
