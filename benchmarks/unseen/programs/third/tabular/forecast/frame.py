"""the table as columns"""
import csv

import numpy as np
from paddle.io import Dataset

from .settings import SETTINGS

D = SETTINGS["data"]
TASKS = SETTINGS["tasks"]


def columns(path):
    with open(path, newline="") as f:
        rows = list(csv.reader(f))
    return {name: np.array(values) for name, values in zip(rows[0], zip(*rows[1:]))}


def floats(texts):
    return np.array([t if t else "nan" for t in texts]).astype("float64")


class Preparation:
    """fitted on the train rows, applied to any rows"""

    def __init__(self, frame, rows):
        self.levels = {c: np.unique(frame[c][rows]) for c in D["categories"]}
        raw = self.numbers(frame)[rows]
        self.centre = np.nanmean(raw, axis=0)
        self.spread = np.nanstd(raw, axis=0)
        self.grid = np.percentile(np.nan_to_num((raw - self.centre) / self.spread), np.linspace(0, 100, SETTINGS["model"]["bins"] + 1), axis=0)
        self.scale = {}
        for task in TASKS:
            y = floats(frame[task["name"]][rows])
            self.scale[task["name"]] = (y.mean(), y.std()) if task["head"] == "levels" else (0.0, 1.0)

    def numbers(self, frame):
        return np.stack([np.log1p(floats(frame[c])) if c in D["log"] else floats(frame[c]) for c in D["numbers"]], axis=1)

    def categories(self, frame):
        out = []
        for c in D["categories"]:
            known = self.levels[c]
            place = np.minimum(np.searchsorted(known, frame[c]), len(known) - 1)
            out.append(np.where(known[place] == frame[c], place + 1, 0))
        return np.stack(out, axis=1)

    def inputs(self, frame):
        z = (self.numbers(frame) - self.centre) / self.spread
        gap = np.isnan(z[:, :1]).astype("float64")
        angle = floats(frame["hour"])[:, None] * (2 * np.pi / D["day_hours"])
        numbers = np.concatenate([np.nan_to_num(z), np.sin(angle), np.cos(angle), gap], axis=1)
        return self.categories(frame), numbers.astype("float32")

    def targets(self, frame):
        y = [(floats(frame[t["name"]]) - self.scale[t["name"]][0]) / self.scale[t["name"]][1] for t in TASKS]
        return np.stack(y, axis=1).astype("float32")


FRAME = columns(D["file"])
HELD = np.arange(len(FRAME["hour"])) % D["holdout"] == 0
PREPARED = Preparation(FRAME, ~HELD)


class Hours(Dataset):
    def __init__(self, split):
        super().__init__()
        rows = HELD if split == "valid" else ~HELD
        part = {k: v[rows] for k, v in FRAME.items()}
        self.cats, self.nums = PREPARED.inputs(part)
        self.labels = PREPARED.targets(part)

    def __getitem__(self, i):
        return {"cats": self.cats[i], "nums": self.nums[i], "labels": self.labels[i]}

    def __len__(self):
        return len(self.nums)
