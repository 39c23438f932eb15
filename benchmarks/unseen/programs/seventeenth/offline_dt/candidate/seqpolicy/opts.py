import os
from argparse import Namespace

DATA_DIR = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", "data"))

STATE_COLUMNS = ["x", "y", "vx", "vy", "goal"]
ACTION_COLUMNS = ["ax", "ay"]

opts = Namespace(
    # windows
    K=8,
    gamma=0.97,
    scale=10.0,
    std_floor=1e-3,
    empty_action=-1.0,
    samples_per_epoch=80,
    batch=8,
    seed=99,
    # network
    dim=32,
    n_head=4,
    n_layer=3,
    n_time=40,
    ffn=96,
    init_std=0.05,
    # objective
    beta_awr=0.5,
    clip_awr=3.0,
    rtg_coef=0.2,
    delta=0.3,
    # optimisation
    lr=0.004,
    b1=0.9,
    b2=0.98,
    eps=1e-6,
    wd=0.1,
    lr_decay=0.7,
    grad_norm=0.5,
    phi_max=2.0,
    warmup=10,
    steps=80,
    power=2.0,
    floor=0.05,
)
