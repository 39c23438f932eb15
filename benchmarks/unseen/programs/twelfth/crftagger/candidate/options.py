import ast
import configparser
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
DATA = FOLDER.parent / "data"


def section(name):
    parser = configparser.ConfigParser()
    parser.read(FOLDER / "tagger.ini", encoding="utf-8")
    return {key: ast.literal_eval(value) for key, value in parser[name].items()}
