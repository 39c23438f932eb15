import json
from pathlib import Path


class Config(dict):
    """A dict whose keys are attributes too."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def load_config(name="spot_s"):
    path = Path(__file__).resolve().parents[1] / "configs" / f"{name}.json"
    return json.loads(path.read_text(), object_hook=Config)
