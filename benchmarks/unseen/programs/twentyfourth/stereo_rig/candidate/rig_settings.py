"""rig.ini with typed access."""
import configparser
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE.parent / "data"

_parser = configparser.ConfigParser()
_parser.read(HERE / "rig.ini")


def number(section, key):
    text = _parser.get(section, key)
    return float(text) if "." in text or "e" in text else int(text)


def numbers(section, key):
    return [float(t) for t in _parser.get(section, key).split(",")]


def word(section, key):
    return _parser.get(section, key).strip()
