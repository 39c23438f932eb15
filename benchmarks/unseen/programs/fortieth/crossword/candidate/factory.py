"""settings.toml, and the makers that its sections name with `use`."""

import tomllib
from pathlib import Path

with open(Path(__file__).with_name("settings.toml"), "rb") as handle:
    SETTINGS = tomllib.load(handle)

MAKERS = {}


def maker(name):
    def keep(thing):
        MAKERS[name] = thing
        return thing

    return keep


def make(section, **more):
    options = {k: v for k, v in section.items() if k != "use"}
    try:
        thing = MAKERS[section["use"]]
    except KeyError:
        raise ValueError(f"settings.toml asks for {section['use']!r}; there are {', '.join(MAKERS)}") from None
    return thing(**options, **more)
