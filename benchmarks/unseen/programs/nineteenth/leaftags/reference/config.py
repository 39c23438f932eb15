from dataclasses import dataclass, field
from pathlib import Path

DATA = Path(__file__).resolve().parent.parent / "data"


@dataclass
class ModelConfig:
    dim: int = 48
    kernel: int = 3
    dilations: tuple = (1, 2, 4)
    dropout: float = 0.1
    max_len: int = 28


@dataclass
class TrainConfig:
    batch_size: int = 12
    pool: int = 48
    lr: float = 2e-3
    layer_decay: float = 0.7
    weight_decay: float = 0.05
    betas: tuple = (0.9, 0.98)
    eps: float = 1e-6
    warmup: int = 8
    epochs: int = 2
    clip: float = 1.0
    cb_beta: float = 0.98
    violation: float = 0.5
    word_drop: float = 0.12
    seed: int = 77


@dataclass
class Config:
    model: ModelConfig = field(default_factory=ModelConfig)
    train: TrainConfig = field(default_factory=TrainConfig)


CFG = Config()
