"""What the settings may name."""
import tomllib
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
SETTINGS = tomllib.loads((FOLDER / "settings.toml").read_text())
_known = {}


def offers(kind, name):
    """Decorator: this class or function is the `kind` called `name`."""
    def note(thing):
        _known[kind, name] = thing
        return thing
    return note


def pick(kind, name):
    try:
        return _known[kind, name]
    except KeyError:
        choices = ", ".join(n for k, n in _known if k == kind)
        raise ValueError(f"{kind} = {name!r}: choose from {choices}") from None
