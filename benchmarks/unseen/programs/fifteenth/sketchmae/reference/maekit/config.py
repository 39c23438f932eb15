from dataclasses import dataclass, field
from pathlib import Path
from typing import Tuple

DATA = Path(__file__).resolve().parents[2] / "data"


@dataclass
class PictureConfig:
    size: int = 32
    resize: int = 36
    mean: Tuple[float, ...] = (0.48, 0.46, 0.41)
    std: Tuple[float, ...] = (0.25, 0.24, 0.26)
    seed: int = 11
    batch_size: int = 8


@dataclass
class MaeConfig:
    patch: int = 4
    dim: int = 48
    depth: int = 3
    heads: int = 4
    mlp_ratio: float = 2.0
    decoder_dim: int = 32
    decoder_depth: int = 1
    decoder_heads: int = 2
    mask_ratio: float = 0.75
    layer_scale: float = 0.1
    norm_eps: float = 1e-6


@dataclass
class OptimConfig:
    lr: float = 1.5e-3
    betas: Tuple[float, float] = (0.9, 0.95)
    weight_decay: float = 0.05
    layer_decay: float = 0.7
    warmup: int = 4
    decay_steps: int = 40
    accumulate: int = 2


@dataclass
class Config:
    picture: PictureConfig = field(default_factory=PictureConfig)
    mae: MaeConfig = field(default_factory=MaeConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)


CONFIG = Config()
