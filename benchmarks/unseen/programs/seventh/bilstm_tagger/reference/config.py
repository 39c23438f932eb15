from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Config:
    data: Path = Path(__file__).resolve().parent.parent / "data"
    tags: list = field(default_factory=lambda: ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"])
    min_freq: int = 2
    max_word_len: int = 9
    batch_size: int = 4
    word_dim: int = 20
    char_dim: int = 10
    char_filters: int = 12
    char_widths: tuple = (2, 3)
    hidden: int = 24
    attn_dim: int = 32
    dropout: float = 0.3
    o_weight: float = 0.4
    lr: float = 4e-3
    betas: tuple = (0.9, 0.98)
    eps: float = 1e-9
    weight_decay: float = 0.05
    clip: float = 0.5
    warmup: int = 5


cfg = Config()
