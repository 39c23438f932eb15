"""Hyper-parameters of the experiment."""
from dataclasses import dataclass, field
from pathlib import Path

DATA = Path(__file__).resolve().parent.parent / "data"


@dataclass(frozen=True)
class ModelConfig:
    hidden: int = 48
    time_dim: int = 16
    heads: int = 4
    dropout: float = 0.1
    min_period: float = 0.02      # in units of `DataConfig.time_unit`
    max_period: float = 8.0
    ln_eps: float = 1e-3


@dataclass(frozen=True)
class DataConfig:
    max_events: int = 32
    time_unit: float = 90.0
    batch_size: int = 6
    bucket: int = 18              # batches are cut from chunks of this many, sorted by length
    seed: int = 77


@dataclass(frozen=True)
class OptimConfig:
    lr: float = 2e-3
    warmup: int = 8
    weight_decay: float = 0.05
    betas: tuple = (0.9, 0.98)
    eps: float = 1e-9
    time_lr_scale: float = 0.25
    clip: float = 0.5
    ema_decay: float = 0.995
    epochs: int = 6


@dataclass(frozen=True)
class Config:
    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    var_floor: float = 2e-2
    beta_nll: float = 0.5


CFG = Config()
