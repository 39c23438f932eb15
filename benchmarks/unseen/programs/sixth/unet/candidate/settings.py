"""All numbers of the experiment (the paper's table 5)."""
from types import SimpleNamespace

DATA = SimpleNamespace(
    crop=(40, 36),
    sizes={"train": 24, "val": 10},
    first_seed={"train": 2021, "val": 12021},
    mean=[0.485, 0.456, 0.406],
    std=[0.229, 0.224, 0.225],
    gamma=0.8,
    batch=4,
)

NET = SimpleNamespace(width=8, levels=3, classes=1, drop_rate=0.1)

TRAIN = SimpleNamespace(
    base_lr=0.02,
    momentum=0.9,
    l2=5e-4,
    warmup=2,
    warmup_ratio=0.1,
    iters=30,
    power=0.9,
)

LOSS = SimpleNamespace(bce=0.6, dice=0.4, positive=2.0, smooth=1.0, aux=0.3)
