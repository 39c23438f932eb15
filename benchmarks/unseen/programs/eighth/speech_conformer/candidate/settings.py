from dataclasses import dataclass, field


@dataclass(frozen=True)
class Features:
    rate: int = 8000
    window: int = 200
    hop: int = 80
    fft: int = 256
    mels: int = 20
    low: float = 60.0
    high: float = 3800.0
    preemphasis: float = 0.97
    floor: float = 1e-6


@dataclass(frozen=True)
class Masking:
    times: int = 2
    widest_time: int = 6
    bands: int = 1
    widest_band: int = 4


@dataclass(frozen=True)
class Encoder:
    mels: int = 20
    dim: int = 24
    heads: int = 3
    layers: int = 2
    feed: int = 48
    kernel: int = 7
    channels: int = 6
    classes: int = 7
    dropout: float = 0.1
    norm_eps: float = 1e-6
    batch_momentum: float = 0.03
    macaron: float = 0.5


@dataclass(frozen=True)
class Training:
    batch: int = 4
    seed: int = 5
    smoothing: float = 0.1
    factor: float = 0.8
    warmup: int = 40
    betas: tuple = (0.9, 0.98)
    eps: float = 1e-9
    decay: float = 1e-4
    clip: float = 0.7
    ignore: int = -1


@dataclass(frozen=True)
class Settings:
    features: Features = field(default_factory=Features)
    masking: Masking = field(default_factory=Masking)
    encoder: Encoder = field(default_factory=Encoder)
    training: Training = field(default_factory=Training)


SETTINGS = Settings()
