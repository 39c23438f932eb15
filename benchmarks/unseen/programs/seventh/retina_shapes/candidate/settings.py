"""Everything that can be turned, as one dict (the YAML of the paper's repository, flattened)."""

CFG = {
    "classes": 3,
    "input": 48,
    "anchors": {"name": "AnchorGrid", "steps": (8, 16), "aspects": (0.5, 1.0, 2.0), "base": 1.5, "octaves": 2},
    "codec": {"name": "BoxCodec", "deviation": (0.1, 0.1, 0.2, 0.2), "clip": 16 / 1000},
    "architecture": {
        "name": "OneStageDetector",
        "trunk": {"name": "Trunk", "widths": (12, 16, 24, 32), "taps": (2, 3), "num_groups": 4},
        "pyramid": {"name": "TopDown", "widths": (24, 32), "width": 24},
        "head": {"name": "DenseHead", "classes": 3, "width": 24, "depth": 2, "levels": 2, "per_cell": 6, "num_groups": 4, "prior": 0.01},
    },
    "matching": {"positive": 0.5, "negative": 0.4},
    "focal": {"gamma": 2.0, "alpha": 0.25},
    "l1_beta": 0.11,
    "eval": {"keep": 8, "iou": 0.3},
    "pixel_mean": (123.675, 116.28, 103.53),
    "pixel_std": (58.395, 57.12, 57.375),
    "boxes": 4,
    "sets": {"train": (24, 100), "val": (12, 900)},
    "batch": 4,
    "flip": 0.5,
    "solver": {"lr": 0.02, "momentum": 0.9, "decay": 1e-3, "bias_factor": 2.0, "warmup": 4, "start": 0.1, "drops": (10, 16), "gamma": 0.1},
}
