"""Photometry on arrays: reading shots, angles between colours, summaries of errors."""
import csv
import json
import math
import os

import numpy as np
import paddle
from PIL import Image

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "data")
QUARTERS = (0.25, 0.5, 0.75)
TRIMEAN = (0.25, 0.5, 0.25)


def cameras():
    with open(os.path.join(FOLDER, "cameras.json")) as f:
        spec = json.load(f)
    return [dict(c, limit=spec["saturation"]) for c in spec["cameras"]]


def shots(split):
    with open(os.path.join(FOLDER, "shots.csv")) as f:
        return sorted((r for r in csv.DictReader(f) if r["split"] == split), key=lambda r: r["file"])


def linearise(path, camera):
    raw = np.asarray(Image.open(path).convert("RGB"), dtype=np.float32)
    black = np.float32(camera["black"])
    lin = np.power(np.maximum(raw - black, 0) / (255 - black), np.float32(2.2))
    lin = lin / np.asarray(camera["gain"], dtype=np.float32)
    lin[raw.max(axis=2) >= camera["limit"]] = 0.0
    return lin.transpose(2, 0, 1)


def expose(lin):
    return (lin / (np.percentile(lin, 95) + 1e-4)).astype(np.float32)


def unit(x):
    return x / paddle.sqrt((x * x).sum(axis=1, keepdim=True)).clip(min=1e-12)


def between(a, b):
    """Angle in radians between the rows of a and b."""
    a0, a1, a2 = a[:, 0], a[:, 1], a[:, 2]
    b0, b1, b2 = b[:, 0], b[:, 1], b[:, 2]
    sine = (a1 * b2 - a2 * b1) ** 2 + (a2 * b0 - a0 * b2) ** 2 + (a0 * b1 - a1 * b0) ** 2
    return paddle.atan2(paddle.sqrt(sine + 1e-10), (a * b).sum(axis=1))


def between_np(a, b):
    sine = (np.cross(a, b) ** 2).sum(1) + 1e-10
    return np.degrees(np.arctan2(np.sqrt(sine), (a * b).sum(1)))


def summary(deg):
    quarters = np.quantile(deg, QUARTERS)
    k = max(1, math.ceil(0.25 * deg.size))
    return {
        "mean": float(deg.mean()),
        "median": float(quarters[1]),
        "trimean": float(np.dot(quarters, TRIMEAN)),
        "worst25": float(np.sort(deg)[-k:].mean()),
        "spread": float(deg.std(ddof=1)) if deg.size > 1 else 0.0,
    }
