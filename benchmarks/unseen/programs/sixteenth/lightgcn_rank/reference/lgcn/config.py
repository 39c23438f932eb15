import configparser
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).resolve().parent.parent.parent / "data"


@dataclass(frozen=True)
class Config:
    half_life: float
    min_stars: int
    dim: int
    layers: int
    embedding_std: float
    batch_size: int
    negatives: int
    epochs: int
    seed: int
    penalty: float
    temperature: float
    lr: float
    initial_accumulator: float
    eps: float
    weight_decay: float
    warmup: int
    milestones: tuple
    gamma: float
    k: int


def load(path=DATA / "settings.ini"):
    parser = configparser.ConfigParser()
    parser.read(path)
    values = {}
    for section in parser.sections():
        for key, text in parser[section].items():
            kind = Config.__annotations__[key]
            values[key] = tuple(int(part) for part in text.split(",")) if kind is tuple else kind(text)
    return Config(**values)
