from dataclasses import dataclass, field
from pathlib import Path
from typing import Tuple

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class DataConfig:
    folder: Path = ROOT / "data"
    points: int = 64
    ground: float = -2.6          # everything below is road
    batch_train: int = 4
    batch_eval: int = 3


@dataclass(frozen=True)
class NetConfig:
    levels: Tuple[int, ...] = (32, 16)
    widths: Tuple[Tuple[int, ...], ...] = ((16, 24), (32, 40))
    neighbours: int = 8
    cost_neighbours: int = 6
    cost_width: int = 32
    slope: float = 0.1


@dataclass(frozen=True)
class TrainConfig:
    lr: float = 2e-3
    decay_rate: float = 0.6
    decay_steps: int = 2
    lr_floor: float = 5e-4
    weight_decay: float = 1e-3
    level_weights: Tuple[float, float] = (1.0, 0.4)
    chamfer: float = 0.3
    smooth: float = 0.5
    smooth_neighbours: int = 5


@dataclass(frozen=True)
class Config:
    data: DataConfig = field(default_factory=DataConfig)
    net: NetConfig = field(default_factory=NetConfig)
    train: TrainConfig = field(default_factory=TrainConfig)


CONFIG = Config()
