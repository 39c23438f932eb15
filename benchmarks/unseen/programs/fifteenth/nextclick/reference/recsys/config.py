import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Tuple

ROOT = Path(__file__).resolve().parents[1]
DATA_DIR = ROOT.parent / "data"


@dataclass
class DataConfig:
    clicks: str
    negatives: str
    max_len: int
    min_item_count: int
    min_user_clicks: int
    train_negatives: int
    batch_size: int


@dataclass
class ModelConfig:
    name: str
    dim: int
    heads: int
    layers: int
    hidden: int
    max_distance: int
    dropout: float
    norm_eps: float


@dataclass
class OptimConfig:
    lr: float
    embedding_lr_scale: float
    betas: Tuple[float, float]
    weight_decay: float
    warmup: int
    total: int
    floor: float


@dataclass
class Config:
    data: DataConfig
    model: ModelConfig
    optim: OptimConfig
    loss: Dict[str, Any]
    eval: Dict[str, Any]


def load_config(name="base"):
    with open(ROOT / "configs" / f"{name}.json") as f:
        raw = json.load(f)
    return Config(
        data=DataConfig(**raw["data"]),
        model=ModelConfig(**raw["model"]),
        optim=OptimConfig(**raw["optim"]),
        loss=raw["loss"],
        eval=raw["eval"],
    )
