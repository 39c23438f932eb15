import configparser
from pathlib import Path
from types import SimpleNamespace

HERE = Path(__file__).resolve().parent


def _value(text):
    if "," in text:
        return [float(t) for t in text.split(",")]
    return int(text) if text.strip().isdigit() else float(text)


def read():
    parser = configparser.ConfigParser()
    parser.read(HERE / "settings.ini")
    return SimpleNamespace(**{
        name: SimpleNamespace(**{k: _value(v) for k, v in parser[name].items()}) for name in parser.sections()
    })


CFG = read()
DATA = HERE.parent / "data"
