"""Settings of the Paddle port."""
import os

DATA_DIR = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data"))

CROP, STRIDE, REPEATS, MIN_AREA = 64, 4, 3, 10
MEAN, STD = (0.33, 0.30, 0.25), (0.20, 0.17, 0.14)
GAMMA_JITTER, DATA_SEED = 0.25, 400
TRAIN_BATCH, EVAL_BATCH = 8, 3

WIDTHS, DEPTHS, PYRAMID, PRIOR, DROP = (24, 40, 64), (1, 2, 1), 32, 0.02, 0.1

LOSS_WEIGHTS = {"focal": 1.0, "dice": 1.0, "heat": 0.8, "size": 0.2}

LR, MOMENTUM, L2, EPOCHS, WARMUP, POWER = 0.04, 0.9, 5e-4, 30, 8, 0.9
AGC, AGC_EPS = 0.04, 1e-3

MASK_THRESHOLD, MIN_PIXELS, TOP_K, NMS_IOU, LARGE = 0.5, 12, 24, 0.35, 140
