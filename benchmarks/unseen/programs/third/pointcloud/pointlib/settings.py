"""everything that an experiment sets"""

DEFAULTS = {
    "classes": 4,
    "points": 48,
    "neighbours": 8,
    "slope": 0.2,
    "tnet_width": 32,
    "stages": ((3, 24), (24, 32)),
    "fuse": 64,
    "hidden": 32,
    "drop": 0.3,
    "train_rotation": 30.0,
    "smoothing": 0.2,
    "ortho": 0.01,
    "lr": 2e-3,
    "lr_step": 2,
    "lr_gamma": 0.7,
    "decay": 0.05,
    "bn": {"momentum": 0.9, "epsilon": 1e-5},
}
