from configparser import ConfigParser
from pathlib import Path


class Settings:
    def __init__(self, path):
        self.parser = ConfigParser()
        self.parser.read(path)

    def __call__(self, section, key, kind=str):
        return kind(self.parser[section][key])

    def names(self, section, key):
        return [v.strip() for v in self.parser[section][key].split(",")]


SETTINGS = Settings(Path(__file__).with_name("settings.ini"))
DATA_DIR = Path(__file__).resolve().parents[2] / "data"
