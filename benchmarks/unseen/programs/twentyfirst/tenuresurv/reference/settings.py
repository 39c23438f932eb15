"""All knobs of the tenure model in one frozen dataclass."""
from dataclasses import dataclass, field
from pathlib import Path

DATA = Path(__file__).resolve().parent.parent / "data"


@dataclass(frozen=True)
class Settings:
    numeric: tuple = ("income", "disease", "visits", "cap", "limits")
    log_scaled: tuple = ("visits", "cap")
    categorical: tuple = ("plan", "health", "region")
    min_count: int = 12              # rarer levels share the unknown slot
    edges: tuple = (1.5, 3.0, 4.5, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0, 18.0, 21.0, 24.0)
    d_token: int = 16
    frequencies: int = 6
    sigma: float = 0.35
    width: int = 64
    n_blocks: int = 2
    dropout: float = 0.1
    batch_size: int = 32
    epochs: int = 12
    lr: float = 2e-3
    weight_decay: float = 0.03
    warmup: int = 6
    floor: float = 0.05
    clip: float = 2.0
    horizon: float = 12.0
    hazard_weight: float = 0.5
    centre_weight: float = 0.01
    sampler_seed: int = 11

    @property
    def bins(self):
        return len(self.edges)


CFG = Settings()
