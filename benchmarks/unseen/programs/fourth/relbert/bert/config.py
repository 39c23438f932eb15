from dataclasses import dataclass


@dataclass(frozen=True)
class BertConfig:
    vocab_size: int
    hidden_size: int = 32
    num_heads: int = 4
    num_layers: int = 3
    intermediate: int = 80
    relative_buckets: int = 12
    relative_far: int = 20
    layer_norm_eps: float = 1e-6
    dropout: float = 0.1
    pad_id: int = 0
    scale_embedding: bool = True


@dataclass(frozen=True)
class SolverConfig:
    rate: float = 1.5e-3
    beta1: float = 0.9
    beta2: float = 0.98
    epsilon: float = 1e-6
    decay: float = 0.05
    warmup_steps: int = 6
    total_steps: int = 40
    floor: float = 0.05
