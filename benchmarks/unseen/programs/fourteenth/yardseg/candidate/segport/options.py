from dataclasses import dataclass
from os import path


@dataclass(frozen=True)
class Photos:
    folder: str = path.abspath(path.join(path.dirname(__file__), path.pardir, path.pardir, "data"))
    side: int = 64
    zoom: tuple = (0.6, 1.3)
    mirror: float = 0.5
    light: float = 0.2
    mean: tuple = (0.485, 0.456, 0.406)
    std: tuple = (0.229, 0.224, 0.225)
    batch: int = 2
    void: int = 255
    labels: int = 4


@dataclass(frozen=True)
class Net:
    stem: int = 16
    stages: tuple = ((24, 1, 1), (32, 2, 1), (48, 1, 2))
    atrous: tuple = (2, 4)
    width: int = 32
    detail: int = 12
    aux_width: int = 16
    drop: float = 0.1


@dataclass(frozen=True)
class Fit:
    label_weights: tuple = (0.6, 1.0, 1.4, 1.8)
    dice: float = 0.5
    aux: float = 0.4
    rate: float = 4e-3
    trunk_share: float = 0.1
    decay: float = 5e-4
    beta1: float = 0.9
    beta2: float = 0.99
    steps: int = 30
    rise: float = 0.3
    start_div: float = 20.0
    end_div: float = 400.0
    limit: float = 0.02
    averaging: float = 0.9


PHOTOS, NET, FIT = Photos(), Net(), Fit()
