"""The reference with one sample of keys for all calls: for ``training.toml``, whose steps no draw may disturb."""

import reference
from informer.model import Informer, fix_keys
from reference import build_dataloader, build_optimizer, build_scheduler, loss

__all__ = ["build_dataloader", "build_model", "build_optimizer", "build_scheduler", "loss", "train"]


def fixed(model):
    fix_keys(model, 0)
    return model


def build_model():
    return fixed(reference.build_model())


def train(log):
    reference.train(log, build=lambda: fixed(Informer()))
