"""The port with one sample of keys for all calls: for ``training.toml``, whose steps no draw may disturb."""

import candidate
from candidate import build_dataloader, build_optimizer, build_scheduler, loss
from informer_paddle.model import Informer, fix_keys

__all__ = ["build_dataloader", "build_model", "build_optimizer", "build_scheduler", "loss", "train"]


def fixed(model):
    fix_keys(model, 0)
    return model


def build_model():
    return fixed(candidate.build_model())


def train(log):
    candidate.train(log, build=lambda: fixed(Informer()))
