import csv
import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

PROJECT = Path(__file__).resolve().parent.parent


def features(volt, amp, points):
    """Current, power and slope on an even grid of voltages, each scaled by the sweep's own ends."""
    volt, amp = np.asarray(volt, np.float64), np.asarray(amp, np.float64)
    order = np.argsort(volt, kind="stable")
    volt, amp = volt[order], amp[order]
    grid = np.linspace(0.0, volt[-1], points)
    current = np.interp(grid, volt, amp)
    isc = max(current[:3].mean(), 1e-3)
    current = current / isc
    place = grid / volt[-1]
    power = current * place
    slope = -np.gradient(current, place)
    slope = np.log1p(np.clip(slope, 0, None)) / 3
    return np.stack([current, power, slope]).astype(np.float32)


def environment(entry, scale):
    return np.array([entry[k] / scale[k] for k in ("irradiance", "cell_temp", "age_years", "diodes")], np.float32)


class Sweeps(Dataset):
    def __init__(self, cfg, split):
        root = PROJECT / cfg["root"]
        points = defaultdict(list)
        with open(root / "sweeps.csv") as handle:
            for row in csv.DictReader(handle):
                points[row["sweep"]].append((float(row["volt"]), float(row["amp"])))
        self.entries = [m for m in json.loads((root / "sweeps.json").read_text()) if m["split"] == split]
        self.points, self.cfg = points, cfg

    def __len__(self):
        return len(self.entries)

    def __getitem__(self, i):
        entry = self.entries[i]
        volt, amp = zip(*self.points[entry["id"]])
        curve = torch.from_numpy(features(volt, amp, self.cfg["points"]))
        env = torch.from_numpy(environment(entry, self.cfg["env_scale"]))
        return curve, env, {"fault": entry["fault"], "severity": np.float32(entry["severity"])}

    def counts(self, classes):
        return np.bincount([m["fault"] for m in self.entries], minlength=classes).tolist()


def loader(cfg, split):
    train = split == "train"
    return DataLoader(Sweeps(cfg, split), batch_size=cfg["batch_size"], shuffle=train, drop_last=train)
