from dataclasses import dataclass, field
from typing import Optional, Tuple


@dataclass(frozen=True)
class Inverted:
    out: int
    stride: int = 1
    ratio: int = 2
    dilation: int = 1
    squeeze: bool = False


@dataclass(frozen=True)
class Shuffle:
    out: int
    groups: int = 4


@dataclass(frozen=True)
class Net:
    stem: int = 16
    stages: Tuple = (
        (Inverted(24, stride=2, squeeze=True), Shuffle(24)),
        (Inverted(40, stride=2), Inverted(40, dilation=2, squeeze=True)),
    )
    bn_momentum: float = 0.97  # weight of the old statistics
    bn_epsilon: float = 1e-3
    width: int = 32
    tower: int = 2
    tower_groups: int = 4
    classes: int = 10
    prior: float = 0.05


@dataclass(frozen=True)
class Solver:
    lr: float = 0.02
    backbone: float = 0.25
    momentum: float = 0.9
    weight_decay: float = 5e-4
    warmup: int = 5
    warmup_factor: float = 0.1
    milestones: Tuple[int, ...] = (12, 18)
    gamma: float = 0.1


@dataclass(frozen=True)
class Settings:
    size: Tuple[int, int] = (48, 64)
    mean: Tuple[float, ...] = (0.485, 0.456, 0.406)
    std: Tuple[float, ...] = (0.229, 0.224, 0.225)
    max_objects: int = 4
    batch_size: int = 3
    flip: float = 0.5
    jitter: float = 0.2
    strides: Tuple[int, ...] = (4, 8, 16)
    scales: Tuple[float, ...] = (3.0, 2.5, 2.0)
    ratios: Tuple[float, ...] = (0.75, 1.25, 2.0)
    positive: float = 0.5
    negative: float = 0.4
    coder: Tuple[float, ...] = (10.0, 10.0, 5.0, 5.0)
    alpha: float = 0.25
    gamma: float = 2.0
    beta: float = 0.11
    box_weight: float = 1.0
    giou_weight: float = 0.5
    pre_nms: int = 100
    nms: float = 0.45
    keep: int = 12
    net: Net = field(default_factory=Net)
    solver: Solver = field(default_factory=Solver)
    checkpoint: Optional[str] = None
