import ast
import configparser
import os
from types import SimpleNamespace

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDER = os.path.join(os.path.dirname(HERE), "data")


def _value(text):
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def read_settings(name="settings.ini"):
    parser = configparser.ConfigParser()
    parser.read(os.path.join(HERE, name))
    sections = {}
    for section in parser.sections():
        pairs = {key: _value(text) for key, text in parser.items(section)}
        sections[section] = SimpleNamespace(**pairs)
    return SimpleNamespace(**sections)


SETTINGS = read_settings()
