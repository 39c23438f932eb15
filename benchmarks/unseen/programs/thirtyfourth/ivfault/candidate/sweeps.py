import json
from pathlib import Path

import numpy as np
from paddle.io import DataLoader, Dataset

TOP = Path(__file__).resolve().parents[1]
FIELDS = ["irradiance", "cell_temp", "age_years", "diodes"]


def describe(volt, amp, grid):
    """[current, power, slope] over the relative voltage, as float32."""
    order = np.argsort(volt, kind="stable")
    volt, amp = np.asarray(volt, dtype=float)[order], np.asarray(amp, dtype=float)[order]
    knots = np.linspace(0.0, volt[-1], grid)
    share = knots / volt[-1]
    current = np.interp(knots, volt, amp)
    current /= max(current[:3].mean(), 1e-3)
    falling = np.maximum(-np.gradient(current, share), 0.0)
    return np.stack([current, current * share, np.log1p(falling) / 3.0]).astype("float32")


def surroundings(record, divide):
    return np.asarray([record[f] / divide[f] for f in FIELDS], dtype="float32")


class SweepSet(Dataset):
    def __init__(self, cfg, split):
        super().__init__()
        self.cfg = cfg
        folder = TOP / cfg["folder"]
        with open(folder / "sweeps.json") as f:
            self.records = [r for r in json.load(f) if r["split"] == split]
        names = np.loadtxt(folder / "sweeps.csv", delimiter=",", skiprows=1, usecols=0, dtype=str)
        values = np.loadtxt(folder / "sweeps.csv", delimiter=",", skiprows=1, usecols=(1, 2))
        self.curves = {r["id"]: values[names == r["id"]] for r in self.records}

    def __getitem__(self, index):
        record = self.records[index]
        volt, amp = self.curves[record["id"]].T
        target = {"fault": record["fault"], "severity": np.float32(record["severity"])}
        return describe(volt, amp, self.cfg["grid"]), surroundings(record, self.cfg["divide"]), target

    def __len__(self):
        return len(self.records)

    def seen(self, classes):
        found = [r["fault"] for r in self.records]
        return np.array([found.count(c) for c in range(classes)])


def batches(cfg, split):
    return DataLoader(SweepSet(cfg, split), batch_size=cfg["batch"], **cfg[split])
