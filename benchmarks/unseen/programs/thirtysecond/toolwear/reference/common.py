import csv
import json
import pathlib

import numpy as np

BASE = pathlib.Path(__file__).resolve().parent
CFG = json.loads((BASE / "settings.json").read_text())
DATA = BASE.parent / "data"


def runs():
    with open(DATA / "runs.csv", newline="") as f:
        return list(csv.DictReader(f))


def is_val(row):
    return row["tool"] in CFG["val_tools"]


def grade(um):
    """How many of the limits the wear has reached."""
    return sum(um >= g for g in CFG["grades_um"])


def scales():
    """Median and interquartile range of each axis over the training windows; mean and std of the settings."""
    keep = [i for i, r in enumerate(runs()) if not is_val(r)]
    x = np.load(DATA / "windows.npy")[keep].astype(np.float64)
    flat = x.transpose(1, 0, 2).reshape(3, -1)
    q1, q2, q3 = np.percentile(flat, [25, 50, 75], axis=1)
    cut = np.array([[float(r["speed"]), float(r["feed"])] for r in runs() if not is_val(r)])
    cut[:, 0] = np.log(cut[:, 0])
    return q2, q3 - q1, cut.mean(0), cut.std(0, ddof=1)


def prepare(signal, speed, feed, sc):
    x = (signal.astype(np.float64) - sc[0][:, None]) / sc[1][:, None]
    c = (np.array([np.log(speed), feed]) - sc[2]) / sc[3]
    return np.clip(x, -4, 4).astype(np.float32), c.astype(np.float32)
