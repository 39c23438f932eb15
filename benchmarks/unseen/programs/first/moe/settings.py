from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    vocabulary: int = 30
    width: int = 16
    heads: int = 4
    groups: int = 2
    depth: int = 2
    experts: int = 4
    active: int = 2
    inner: int = 24
    theta: float = 5000.0
    drop: float = 0.2
    positions: int = 32
    eps: float = 1e-6

    @property
    def head(self):
        return self.width // self.heads
