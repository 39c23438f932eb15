import json
from pathlib import Path

HERE = Path(__file__).resolve().parent
DATA = HERE.parent / "data"
SETTINGS = json.loads((HERE / "settings.json").read_text())
