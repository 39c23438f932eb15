"""The configuration: a JSON file read into frozen dataclasses."""
import json
from dataclasses import dataclass
from pathlib import Path
from typing import List

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class TextConfig:
    min_count: int
    max_words: int
    max_sentences: int
    vocabulary: int


@dataclass(frozen=True)
class ModelConfig:
    embedding: int
    word_hidden: int
    sentence_hidden: int
    attention: int
    temperature: float
    dropout: float
    norm_epsilon: float = 1e-5


@dataclass(frozen=True)
class LossConfig:
    gamma: float
    class_weights: List[float]
    concentration: float


@dataclass(frozen=True)
class OptimizerConfig:
    learning_rate: float
    beta1: float
    beta2: float
    epsilon: float
    weight_decay: float
    clip_norm: float


@dataclass(frozen=True)
class ScheduleConfig:
    first_cycle: int
    growth: int
    floor: float
    shrink: float


@dataclass(frozen=True)
class LoaderConfig:
    batch_size: int
    classes: List[str]


class Config:
    def __init__(self, path=HERE / "config.json"):
        raw = json.loads(path.read_text())
        self.text = TextConfig(**raw["text"])
        self.model = ModelConfig(**raw["model"])
        self.loss = LossConfig(**raw["loss"])
        self.optimizer = OptimizerConfig(**raw["optimizer"])
        self.schedule = ScheduleConfig(**raw["schedule"])
        self.loader = LoaderConfig(**raw["loader"])


CONFIG = Config()
