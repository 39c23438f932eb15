from dataclasses import dataclass, field
from pathlib import Path

DATA_ROOT = Path(__file__).resolve().parents[2] / "data"


@dataclass
class AudioCfg:
    sample_rate: int = 8000
    clip_samples: int = 2000
    win: int = 200
    hop: int = 80
    n_fft: int = 256
    n_mels: int = 32
    f_min: float = 60.0
    f_max: float = 3800.0
    preemph: float = 0.97
    floor: float = 1e-5


@dataclass
class AugmentCfg:
    max_shift: int = 200
    freq_masks: int = 2
    freq_width: int = 5
    time_masks: int = 2
    time_width: int = 4


@dataclass
class ModelCfg:
    name: str = "resnet1d_se"
    widths: tuple = (32, 48, 64)
    depths: tuple = (1, 2, 1)
    se_ratio: int = 4
    dropout: float = 0.2


@dataclass
class TrainCfg:
    batch_size: int = 4
    lr: float = 0.05
    momentum: float = 0.9
    weight_decay: float = 1e-3
    head_mult: float = 2.0
    warmup_steps: int = 6
    total_steps: int = 30
    poly_power: float = 1.5
    end_ratio: float = 0.01
    smoothing: float = 0.1
    class_weights: tuple = (1.0, 1.0, 1.0, 1.0, 0.4)
    clip: float = 1.0
    fire_at: float = 0.3


@dataclass
class Config:
    audio: AudioCfg = field(default_factory=AudioCfg)
    augment: AugmentCfg = field(default_factory=AugmentCfg)
    model: ModelCfg = field(default_factory=ModelCfg)
    train: TrainCfg = field(default_factory=TrainCfg)


CFG = Config()
