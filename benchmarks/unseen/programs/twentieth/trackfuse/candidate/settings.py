import os

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data"))

NET = dict(width=48, time_features=16, n_head=4, p_drop=0.1, periods=(0.02, 8.0), norm_eps=1e-3)
PIPE = dict(keep=32, unit=90.0, batch=6, chunk=18, seed=77)
TRAIN = dict(lr=2e-3, warmup=8, decay=0.05, beta1=0.9, beta2=0.98, eps=1e-9, time_lr=0.25, max_norm=0.5,
             ema=0.995, epochs=6)
VAR_FLOOR = 2e-2
BETA = 0.5
Z90 = 1.6449
