from dataclasses import dataclass, field
from typing import List, Tuple


@dataclass
class NetConfig:
    widths: List[int] = field(default_factory=lambda: [12, 16, 24, 32])
    dilations: Tuple[int, ...] = (1, 2, 3)
    depth_range: Tuple[float, float] = (0.3, 10.0)
    slope: float = 0.2
    context_slope: float = 0.1
    bn_momentum: float = 0.9


@dataclass
class LossConfig:
    variance_focus: float = 0.85
    gain: float = 10.0
    aux: float = 0.4
    edges: float = 0.2


@dataclass
class SolverConfig:
    base_lr: float = 0.02
    encoder_factor: float = 0.1
    momentum: float = 0.9
    l2: float = 5e-4
    power: float = 0.9
    iterations: int = 60


@dataclass
class DataConfig:
    archive: str = "scenes.npz"
    crop: Tuple[int, int] = (32, 40)
    batch: int = 3
    mean: Tuple[float, ...] = (0.485, 0.456, 0.406)
    std: Tuple[float, ...] = (0.229, 0.224, 0.225)
    unit: float = 1e-3
