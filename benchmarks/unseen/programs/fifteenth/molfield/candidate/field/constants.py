import os

DATA = os.path.join(os.path.dirname(__file__), os.pardir, os.pardir, "data")

ELEMENTS = {"H": 0, "C": 1, "N": 2, "O": 3}
CUTOFF = 3.0
BATCH = 6
TURN_SEED = 5

NETWORK = dict(width=32, n_radial=16, rounds=3, pooled=24, degree=6.0)

WEIGHTS = {"energy": 1.0, "forces": 4.0}
DELTAS = {"energy": 0.5, "forces": 0.25}

RATE = 0.02
RATE_PER_EPOCH = 0.92
TABLE_RATE = 0.1
MOMENTUM = 0.9
L2 = 0.01
MAX_NORM = 0.5

AVERAGE = dict(decay=0.9, delay=4, every=2)
