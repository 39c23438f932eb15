from dataclasses import dataclass, field
from typing import Tuple


@dataclass(frozen=True)
class DataConfig:
    path: str = "data/sensors.npz"
    context: int = 48
    horizon: int = 12
    stride: int = 4
    borders: Tuple[float, float] = (0.7, 0.85)
    batch_size: int = 8


@dataclass(frozen=True)
class ModelConfig:
    channels: int = 4
    width: int = 16
    heads: int = 4
    ffn: int = 32
    depth: int = 2
    patch: int = 8
    patch_stride: int = 4
    dropout: float = 0.1
    tcn_width: int = 8
    dilations: Tuple[int, ...] = (1, 2, 4)
    trend_degree: int = 2


@dataclass(frozen=True)
class LossConfig:
    quantiles: Tuple[float, ...] = (0.1, 0.5, 0.9)
    horizon_decay: float = 0.97
    slope_weight: float = 0.2
    slope_delta: float = 0.5


@dataclass(frozen=True)
class OptimConfig:
    lr: float = 4e-3
    betas: Tuple[float, float] = (0.9, 0.99)
    eps: float = 1e-4
    weight_decay: float = 0.02
    max_norm: float = 1.0
    warmup: int = 10
    warmup_start: float = 0.2
    step_size: int = 15
    gamma: float = 0.5


@dataclass(frozen=True)
class Config:
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
