import os
from dataclasses import dataclass

DATA_DIR = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "data")


@dataclass(frozen=True)
class Settings:
    labels: tuple = ("circle", "square", "triangle")
    side: int = 48
    down: int = 4
    slots: int = 8
    corner_overlap: float = 0.1
    rgb_mean: tuple = (0.452, 0.431, 0.402)
    rgb_std: tuple = (0.183, 0.176, 0.191)

    seed: int = 7
    flip: float = 0.5
    brightness: float = 0.2
    contrast: float = 0.3

    channels: tuple = (16, 24, 32, 48)
    fpn: int = 24
    branch: int = 24
    prior: float = 0.1
    typical_size: float = 3.0
    last_std: float = 0.05

    focal: tuple = (2.0, 4.0)
    weights: tuple = (("heat", 1.0), ("wh", 0.1), ("reg", 1.0), ("giou", 0.5))

    lr: float = 1e-3
    trunk_lr: float = 0.5
    decay: float = 0.05
    beta1: float = 0.9
    beta2: float = 0.99
    max_norm: float = 2.0
    average: float = 0.98
    average_ramp: int = 10

    batch: int = 4
    warmup: int = 8
    warmup_from: float = 0.1
    drops: tuple = (48, 62)
    drop_by: float = 0.1

    candidates: int = 16
    min_score: float = 0.08
    overlap: float = 0.4
    thresholds: tuple = (0.1, 0.2, 0.3, 0.5)


S = Settings()
