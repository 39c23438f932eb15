from dataclasses import dataclass, field
from pathlib import Path

DATA_ROOT = Path(__file__).resolve().parents[2] / "data"


@dataclass
class ModelConfig:
    width: int = 20
    modes: int = 12
    layers: int = 3
    hidden: int = 48
    frequencies: int = 2


@dataclass
class OptimConfig:
    lr: float = 2e-3
    spectral_factor: float = 0.5
    weight_decay: float = 1e-3
    betas: tuple = (0.9, 0.98)
    eps: float = 1e-7
    clip_value: float = 0.02
    pushforward: float = 0.5


@dataclass
class ScheduleConfig:
    warmup: int = 6
    first_cycle: int = 10
    multiplier: int = 2
    peak_decay: float = 0.8
    min_lr: float = 1e-5
    epochs: int = 10


@dataclass
class Config:
    batch_size: int = 16
    seed: int = 1234
    h1_weight: float = 0.1
    horizon: int = 5
    bands: tuple = (4, 12)
    model: ModelConfig = field(default_factory=ModelConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)


config = Config()
