from dataclasses import dataclass, field
from typing import Tuple


@dataclass
class DataConfig:
    image_size: Tuple[int, int] = (40, 36)
    num_train: int = 24
    num_val: int = 10
    seed: int = 2021
    mean: Tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: Tuple[float, float, float] = (0.229, 0.224, 0.225)
    batch_size: int = 4


@dataclass
class ModelConfig:
    in_channels: int = 3
    base: int = 8
    depth: int = 3
    num_classes: int = 1
    dropout: float = 0.1
    attention: bool = True


@dataclass
class OptimConfig:
    lr: float = 0.02
    momentum: float = 0.9
    weight_decay: float = 5e-4
    warmup_steps: int = 2
    warmup_factor: float = 0.1
    max_steps: int = 30
    power: float = 0.9


@dataclass
class LossConfig:
    bce_weight: float = 0.6
    dice_weight: float = 0.4
    pos_weight: float = 2.0
    smooth: float = 1.0
    aux_weight: float = 0.3


@dataclass
class Config:
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    loss: LossConfig = field(default_factory=LossConfig)
