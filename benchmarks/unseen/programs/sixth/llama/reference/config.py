from dataclasses import dataclass


@dataclass
class ModelArgs:
    dim: int = 64
    n_layers: int = 2
    n_heads: int = 8
    n_kv_heads: int = 2
    vocab_size: int = 256
    multiple_of: int = 16
    norm_eps: float = 1e-6
    rope_theta: float = 500.0
    max_seq_len: int = 48
    init_std: float = 0.05
    softcap: float = 15.0


@dataclass
class TrainArgs:
    seq_len: int = 24
    stride: int = 20
    batch_size: int = 6
    context: int = 4
    val_fraction: float = 0.15
    lr: float = 3e-3
    min_lr_ratio: float = 0.1
    betas: tuple = (0.9, 0.95)
    eps: float = 1e-8
    weight_decay: float = 0.1
    warmup: int = 3
    total_steps: int = 60
    z_loss: float = 1e-3
