"""Parts that a configuration names with ``use``; each part registers itself under its kind."""
from pathlib import Path

try:
    import tomllib
except ImportError:  # before Python 3.11
    import tomli as tomllib

_PARTS = {}


def part(kind, name):
    def keep(obj):
        _PARTS[kind, name] = obj
        return obj
    return keep


def make(kind, spec, *args, **more):
    options = {k: v for k, v in spec.items() if k != "use"}
    try:
        found = _PARTS[kind, spec["use"]]
    except KeyError:
        raise LookupError(f"no {kind} is called {spec['use']!r}") from None
    return found(*args, **options, **more)


def settings(stem="solar"):
    with open(Path(__file__).with_name("conf") / f"{stem}.toml", "rb") as f:
        return tomllib.load(f)
