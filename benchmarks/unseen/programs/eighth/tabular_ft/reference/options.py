import json
import os
from types import SimpleNamespace


def read(name="config.json"):
    """The configuration as attributes; `binned` stays a dict, as its keys are names of columns."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), name)) as file:
        tree = json.load(file)
    return SimpleNamespace(**{key: SimpleNamespace(**value) for key, value in tree.items()})


OPTIONS = read()
