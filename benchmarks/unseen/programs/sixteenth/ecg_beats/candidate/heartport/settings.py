import json
import os
from dataclasses import dataclass, field

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir, "data")


def data_file(*parts):
    return os.path.join(ROOT, *parts)


@dataclass
class Settings:
    classes: dict
    splits: dict
    window: dict
    augment: dict
    sampler: dict
    model: dict
    loss: dict
    optim: dict
    schedule: dict
    batch_size: int
    label_of: dict = field(default_factory=dict)

    def __post_init__(self):
        for number, name in enumerate(self.classes):
            for symbol in self.classes[name]:
                self.label_of[symbol] = number

    @property
    def num_classes(self):
        return len(self.classes)


def read_settings():
    with open(data_file("settings.json")) as f:
        return Settings(**json.load(f))
