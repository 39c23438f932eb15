from dataclasses import dataclass, field
from typing import List, Tuple


@dataclass
class ModelConfig:
    dim: int = 32
    layers: List[str] = field(default_factory=lambda: ["ssd", "attention", "ssd"])
    hidden: int = 56
    # attention
    heads: int = 4
    window: int = 8
    rotary_dim: int = 6
    rotary_base: float = 1000.0
    # state space
    inner: int = 48
    ssm_heads: int = 6
    ssm_groups: int = 2
    state: int = 5
    conv: int = 4
    dt_range: Tuple[float, float] = (0.01, 0.3)
    dropout: float = 0.1
    eps: float = 1e-5
    soft_cap: float = 12.0


@dataclass
class DataConfig:
    vocabulary: int = 110
    max_len: int = 20
    batch_size: int = 4
    word_dropout: float = 0.1


@dataclass
class TrainConfig:
    lr: float = 4e-3
    betas: Tuple[float, float] = (0.9, 0.95)
    weight_decay: float = 0.1
    warmup: int = 4
    total: int = 24
    final: float = 0.1
    smoothing: float = 0.1
    z_loss: float = 1e-3


@dataclass
class Config:
    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
