from pathlib import Path


class AttrDict(dict):
    __getattr__ = dict.__getitem__


def attr(obj):
    return AttrDict({k: attr(v) if isinstance(v, dict) else v for k, v in obj.items()})


cfg = attr({
    "data": {
        "root": Path(__file__).resolve().parents[2] / "data",
        "size": 64,
        "scale_range": (0.6, 1.3),
        "flip": 0.5,
        "brightness": 0.2,
        "mean": (0.485, 0.456, 0.406),
        "std": (0.229, 0.224, 0.225),
        "batch_size": 2,
        "ignore": 255,
        "classes": 4,
    },
    "backbone": {"type": "DilatedResNet", "widths": (16, 24, 32, 48), "strides": (1, 2, 1), "dilations": (1, 1, 2)},
    "head": {"type": "AtrousHead", "rates": (2, 4), "width": 32, "low_width": 12, "dropout": 0.1},
    "norm": {"eps": 1e-3, "momentum": 0.03},
    "loss": {"weights": (0.6, 1.0, 1.4, 1.8), "dice": 0.5, "aux": 0.4},
    "solver": {
        "lr": 4e-3, "backbone_mult": 0.1, "weight_decay": 5e-4, "betas": (0.9, 0.99),
        "total": 30, "pct_start": 0.3, "div": 20.0, "final_div": 400.0,
        "clip_value": 0.02, "ema": 0.9,
    },
})
