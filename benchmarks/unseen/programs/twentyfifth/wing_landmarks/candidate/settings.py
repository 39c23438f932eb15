"""All numbers of the wing landmark port."""
from pathlib import Path

DATA = Path(__file__).resolve().parents[1] / "data"

SIZE = 32
GRID = 16
POINTS = ("hinge", "costa", "stigma", "apex", "anal")

MODEL = {
    "stem": 12,
    "width": 16,
    "expand": 2,
    "dilations": (1, 2),
    "gate_ratio": 4,
    "stem_groups": 3,
    "norm_groups": 4,
    "slope": 0.1,
}

LOSS = {
    "sigma": 0.06,
    "delta": 0.05,
    "pos_weight": 0.6,
    "importance": (1.0, 1.0, 1.5, 1.0, 0.75),
    "mix": (("heat", 1.0), ("coord", 4.0), ("vis", 0.5)),
}

DATASET = {
    "percentiles": (2, 98),
    "gamma": 0.3,
    "shift": 3,
    "batch": {"train": 6, "val": 10},
}

SCORE = {
    "pck": (0.1, 0.2, 0.3),
    "visible": 0.7,
    "tail": 0.9,
}

OPTIM = {
    "lr": 3e-3,
    "betas": (0.9, 0.98),
    "eps": 1e-7,
    "decay": {"body": 0.05, "plain": 0.0, "head": 0.02},
    "head_factor": 2.0,
    "clip": {"stem": 0.5, "rest": 2.0},
    "sharp_max": 8.0,
}

SCHEDULE = {
    "epochs": 8,
    "steps": 12,
    "warm": 10,
    "first": 0.2,
}
