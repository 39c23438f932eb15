import json
from pathlib import Path
from types import SimpleNamespace

BASE = Path(__file__).resolve().parent

with open(BASE / "config.json", encoding="utf-8") as fp:
    cfg = json.load(fp, object_hook=lambda d: SimpleNamespace(**d))
