"""What the models of the zoo are fed."""

from __future__ import annotations

from functools import lru_cache

import numpy as np


def images(size, batch=2):
    return (np.random.default_rng(0).standard_normal((batch, 3, size, size)).astype("float32"),)


def sequence(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def tokens(length=24, most=90, seed=0, least=1):
    return np.random.default_rng(seed).integers(least, most, (2, length))


@lru_cache(maxsize=1)
def operators():
    """The compiled operators that torchvision's CPU wheel lacks, declared so that it can be imported."""
    import torch

    for name in ("nms", "qnms"):
        torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
