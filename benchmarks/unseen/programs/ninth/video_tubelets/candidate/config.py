"""Settings of model, data and training."""
from dataclasses import dataclass, field
from typing import Tuple


@dataclass
class ModelSettings:
    num_frames: int = 8
    image_size: int = 16
    in_channels: int = 3
    tubelet_size: Tuple[int, int, int] = (2, 4, 4)
    embed_dim: int = 32
    num_heads: int = 4
    depth: int = 3
    mlp_ratio: int = 2
    num_classes: int = 5
    drop_path_rate: float = 0.2
    layer_scale: float = 0.1
    epsilon: float = 1e-6


@dataclass
class DataSettings:
    batch_size: int = 4
    seed: int = 17
    classes: Tuple[str, ...] = ("down", "left", "right", "still", "up")
    mean: Tuple[float, ...] = (0.146, 0.138, 0.151)
    std: Tuple[float, ...] = (0.118, 0.109, 0.124)
    label_smoothing: float = 0.1
    mixup_alpha: float = 0.4


@dataclass
class TrainSettings:
    learning_rate: float = 2e-3
    beta1: float = 0.9
    beta2: float = 0.95
    weight_decay: float = 0.05
    layer_decay: float = 0.65
    warmup_steps: int = 5
    total_steps: int = 36
    final_factor: float = 0.01
    max_norm: float = 0.5
    z_penalty: float = 1e-3
    accumulate: int = 2


@dataclass
class Settings:
    model: ModelSettings = field(default_factory=ModelSettings)
    data: DataSettings = field(default_factory=DataSettings)
    train: TrainSettings = field(default_factory=TrainSettings)


cfg = Settings()
