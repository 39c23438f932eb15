"""The settings, and a catalogue of what they may name."""
from configparser import ConfigParser
from pathlib import Path

SETTINGS = ConfigParser()
SETTINGS.read(Path(__file__).with_name("settings.ini"))
DESK, NETWORK = SETTINGS["desk"], SETTINGS["network"]
OBJECTIVE, TRAINING = SETTINGS["objective"], SETTINGS["training"]
CATALOGUE = {}


def floats(text):
    return [float(x) for x in text.split()]


def whole(text):
    return [int(x) for x in text.split()]


def part(name):
    def enter(cls):
        CATALOGUE[name] = cls
        return cls

    return enter


def make(name, *args):
    try:
        return CATALOGUE[name](*args)
    except KeyError:
        raise SystemExit(f"settings.ini names {name!r}; known are {', '.join(CATALOGUE)}") from None
