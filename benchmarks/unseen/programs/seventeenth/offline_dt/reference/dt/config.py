import ast
import configparser
from pathlib import Path
from types import SimpleNamespace

DATA = Path(__file__).resolve().parents[2] / "data"


def read_settings(path=DATA / "settings.ini"):
    parser = configparser.ConfigParser()
    parser.read(path)
    return SimpleNamespace(
        **{
            section: SimpleNamespace(**{key: ast.literal_eval(value) for key, value in parser[section].items()})
            for section in parser.sections()
        }
    )


settings = read_settings()
