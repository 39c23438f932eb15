from pathlib import Path
from typing import NamedTuple

DATA = Path(__file__).resolve().parent.parent / "data"


class Hyper(NamedTuple):
    obs: int = 5
    act: int = 2
    critic_widths: tuple = (32, 24)
    actor_widths: tuple = (24, 24)
    log_std_min: float = -4.0
    log_std_max: float = 1.0
    gamma: float = 0.97
    expectile: float = 0.7
    beta: float = 3.0
    weight_cap: float = 20.0
    tau: float = 0.02
    actor_clip: float = 0.5
    critic_lr: float = 1e-3
    critic_betas: tuple = (0.9, 0.98)
    critic_eps: float = 1e-8
    critic_decay: float = 1e-2
    actor_lr: float = 6e-4
    actor_eps: float = 1e-5
    horizon: int = 20
    final: float = 0.1
    batch: int = 16
    obs_eps: float = 1e-3
    reward_scale: float = 10.0


HYPER = Hyper()
