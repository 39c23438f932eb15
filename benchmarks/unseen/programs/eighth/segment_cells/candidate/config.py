CONFIG = {
    "model": {
        "type": "AttentionUNet",
        "in_channels": 1,
        "widths": [8, 12, 16],
        "norm": {"groups": 4, "eps": 1e-3},
        "act": {"slope": 0.1},
        "gate_ratio": 0.5,
        "dilation": 2,
        "dropout": 0.1,
        "prior": 0.15,
    },
    "loss": {
        "aux_weight": 0.4,
        "terms": [
            {"type": "DiceLoss", "weight": 1.0, "smooth": 1.0},
            {"type": "BoundaryLoss", "weight": 0.3, "width": 3, "reach": 5},
            {"type": "WeightedBCE", "weight": 0.5, "pos_weight": 1.5},
        ],
    },
    "optimizer": {"lr": 2e-3, "weight_decay": 0.05, "betas": (0.9, 0.99), "eps": 1e-8, "clip": 1.0},
    "schedule": {"type": "WarmupPoly", "warmup": 5, "total": 48, "power": 0.9, "floor": 0.01},
    "data": {
        "folder": "data",
        "batch_size": 4,
        "seed": 11,
        "border": {"w0": 4.0, "sigma": 3.0},
        "transforms": {
            "train": [
                {"type": "RandomFlip", "p": 0.5},
                {"type": "RandomGamma", "low": 0.8, "high": 1.25},
                {"type": "RandomShift", "most": 3},
                {"type": "Normalise", "mean": 0.27, "std": 0.21},
            ],
            "val": [{"type": "Normalise", "mean": 0.27, "std": 0.21}],
        },
    },
    "metric": {"threshold": 0.5, "tolerance": 1, "smallest": 6},
}
