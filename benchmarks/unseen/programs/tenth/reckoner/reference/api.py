from .decoder import Reckoner
from .text import Alphabet, Packed, loader
from .training import build_optimizer, build_scheduler, loss, metric

__all__ = ["build_model", "build_dataset", "build_dataloader", "loss", "metric", "build_optimizer", "build_scheduler"]


def build_model():
    return Reckoner(Alphabet().size)


def build_dataset(split):
    return Packed(split)


def build_dataloader(split):
    return loader(split)
