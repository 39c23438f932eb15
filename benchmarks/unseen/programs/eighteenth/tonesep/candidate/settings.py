"""Settings of the Paddle port (one nested dict, overridable by name)."""
import os

HERE = os.path.dirname(os.path.abspath(__file__))
DATA_DIR = os.path.join(os.path.dirname(HERE), "data")

FRONTEND = {"frame": 128, "shift": 32, "compress": 0.3, "floor": 1e-6}
NETWORK = {"speakers": 2, "width": 40, "inner": 80, "taps": 3, "rates": [1, 2, 4] * 2, "reduction": 4, "bound": 2.0,
           "decay": 0.95}
TRAINING = {"crop": 2048, "batch": 4, "n_train": 26, "n_val": 10, "level": 5.0}
OPTIM = {"lr": 4e-3, "beta1": 0.9, "beta2": 0.98, "decay": 0.02, "max_norm": 1.0, "warmup": 3, "half_life": 20.0}
SPECTRAL = 0.2
