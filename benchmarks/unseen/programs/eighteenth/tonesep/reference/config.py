"""Everything that can be tuned, in one place."""
from dataclasses import dataclass, field
from pathlib import Path

DATA = Path(__file__).resolve().parent.parent / "data"


@dataclass(frozen=True)
class StftConfig:
    n_fft: int = 128
    hop: int = 32
    power: float = 0.3
    eps: float = 1e-6

    @property
    def bins(self):
        return self.n_fft // 2 + 1


@dataclass(frozen=True)
class NetConfig:
    stft: StftConfig = field(default_factory=StftConfig)
    sources: int = 2
    bottleneck: int = 40
    hidden: int = 80
    kernel: int = 3
    dilations: tuple = (1, 2, 4, 1, 2, 4)
    squeeze: int = 4
    mask_bound: float = 2.0
    norm_momentum: float = 0.05


@dataclass(frozen=True)
class TrainConfig:
    segment: int = 2048
    batch_size: int = 4
    items: tuple = (("train", 26), ("val", 10))
    level_db: float = 5.0
    lr: float = 4e-3
    betas: tuple = (0.9, 0.98)
    weight_decay: float = 0.02
    clip: float = 1.0
    warmup: int = 3
    half_life: float = 20.0
    spectral_weight: float = 0.2
