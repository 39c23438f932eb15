from dataclasses import dataclass, field


@dataclass
class NetConfig:
    noise: int = 12
    classes: int = 3
    label_width: int = 6
    g_width: tuple = (32, 24)
    d_width: tuple = (16, 24, 32)
    leak: float = 0.1
    bn_momentum: float = 0.8
    power_iterations: int = 1


@dataclass
class SolverConfig:
    lr_g: float = 2e-3
    lr_d: float = 4e-3
    betas: tuple = (0.5, 0.99)
    decay_d: float = 1e-2
    r1: float = 0.4
    aux: float = 0.5
    match: float = 0.1
    ema: float = 0.9


@dataclass
class Config:
    batch: int = 6
    train_share: tuple = (4, 5)
    truncation: float = 1.5
    net: NetConfig = field(default_factory=NetConfig)
    solver: SolverConfig = field(default_factory=SolverConfig)


CFG = Config()
