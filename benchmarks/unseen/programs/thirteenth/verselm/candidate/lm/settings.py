import configparser
from pathlib import Path
from types import SimpleNamespace


def _value(text):
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def load(path):
    parser = configparser.ConfigParser()
    parser.read(path, encoding="utf-8")
    return SimpleNamespace(
        **{s: SimpleNamespace(**{k: _value(v) for k, v in parser[s].items()}) for s in parser.sections()}
    )


SETTINGS = load(Path(__file__).resolve().parents[1] / "settings.ini")
