"""Everything that can be set."""

STATIONS = ("north", "harbour", "mill")
LEVELS = (0.1, 0.5, 0.9)

WINDOW = {"past": 24, "horizon": 8, "stride": 6, "train_hours": 168, "mask_rate": 0.1}

NET = {
    "width": 20,
    "kernel": 3,
    "dilations": (1, 2, 4),
    "series_dim": 4,
    "latent": 6,
    "flows": 2,
    "hidden": 24,
    "min_scale": 0.05,
}

LOSS = {"quantile": 0.5, "kl": 0.2, "free_bits": 0.1}

TRAIN = {
    "batch_size": 8,
    "lr": 4e-3,
    "beta1": 0.9,
    "beta2": 0.98,
    "epsilon": 1e-7,
    "weight_decay": 1e-3,
    "warmup": 6,
    "clip": 0.5,
    "accumulate": 2,
    "kl_decay": 0.9,
}
