"""Configuration files of the port."""
import configparser
import json
from pathlib import Path

HERE = Path(__file__).resolve().parent
DATA = HERE.parent / "data"


def read_json(name):
    return json.loads((HERE / name).read_text())


def read_ini(name):
    parser = configparser.ConfigParser()
    parser.read(HERE / name)
    return {part: {k: float(v) for k, v in parser[part].items()} for part in parser.sections()}


AUDIO = read_json("audio.json")
MODEL = read_json("model.json")
TRAIN = read_ini("training.ini")
