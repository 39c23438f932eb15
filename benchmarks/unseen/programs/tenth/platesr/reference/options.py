from dataclasses import dataclass, field
from typing import Tuple


@dataclass(frozen=True)
class NetOptions:
    width: int = 12
    levels: Tuple[int, ...] = (12, 20, 28)
    groups: int = 4
    eps: float = 1e-6
    reduction: int = 4
    scale: int = 2
    mean: Tuple[float, float, float] = (0.41, 0.36, 0.47)
    std: Tuple[float, float, float] = (0.24, 0.22, 0.26)


@dataclass(frozen=True)
class LossOptions:
    charbonnier: float = 1e-3
    edge: float = 0.2
    spectrum: float = 0.05


@dataclass(frozen=True)
class TrainOptions:
    lr: float = 2e-3
    betas: Tuple[float, float] = (0.9, 0.99)
    floor: float = 1e-5
    periods: Tuple[int, ...] = (60, 60, 120)
    restarts: Tuple[float, ...] = (1.0, 0.5, 0.5)
    micro_batches: int = 2
    clip: float = 0.25
    ema: float = 0.99


@dataclass(frozen=True)
class Options:
    net: NetOptions = field(default_factory=NetOptions)
    loss: LossOptions = field(default_factory=LossOptions)
    train: TrainOptions = field(default_factory=TrainOptions)
    patch: int = 32
    border: int = 2


OPT = Options()
