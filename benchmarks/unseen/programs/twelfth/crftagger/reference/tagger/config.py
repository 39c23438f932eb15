import json
from pathlib import Path
from types import SimpleNamespace

BASE = Path(__file__).resolve().parent.parent
DATA = BASE.parent / "data"


def load(name="base"):
    text = (BASE / "configs" / f"{name}.json").read_text()
    return json.loads(text, object_hook=lambda d: SimpleNamespace(**d))
