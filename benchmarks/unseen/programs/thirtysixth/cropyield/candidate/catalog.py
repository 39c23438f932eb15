"""`kind` in settings.toml -> a part. Parts add themselves with @part(section, kind)."""
import tomllib
from pathlib import Path

_PARTS = {}


def settings():
    with open(Path(__file__).with_name("settings.toml"), "rb") as f:
        return tomllib.load(f)


def part(section, kind):
    def add(thing):
        _PARTS[section, kind] = thing
        return thing

    return add


def make(section, options, **more):
    options = {**options, **more}
    return _PARTS[section, options.pop("kind")](**options)
