"""config.ini as attributes: settings.model.dropout and so on."""
import configparser
import os
from types import SimpleNamespace

HERE = os.path.dirname(os.path.abspath(__file__))


def parse(text):
    if "," in text:
        return [parse(part.strip()) for part in text.split(",")]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def read(path=os.path.join(HERE, "config.ini")):
    parser = configparser.ConfigParser()
    with open(path) as handle:
        parser.read_file(handle)
    sections = {name: SimpleNamespace(**{key: parse(value) for key, value in parser[name].items()}) for name in parser.sections()}
    return SimpleNamespace(**sections)


settings = read()
