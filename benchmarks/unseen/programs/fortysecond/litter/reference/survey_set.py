"""Surveys as samples, each with what was found on the same beach before."""
import numpy as np
from torch.utils.data import DataLoader, Dataset

from . import tables

PAST = 3


def per_hundred_metres(row):
    counts = row["counts"].astype(np.float64)
    return np.where(counts < 0, 0.0, np.log1p(np.maximum(counts, 0) * 100.0 / float(row["length_m"])))


def history(row, everything):
    """The latest surveys of the beach before this one, newest first."""
    past = np.zeros((PAST, len(tables.KINDS)), dtype=np.float32)
    seen = np.zeros((PAST, len(tables.KINDS)), dtype=np.float32)
    gap = np.zeros(PAST, dtype=np.float32)
    before = [r for r in everything if r["beach"] == row["beach"] and r["day"] < row["day"]]
    before.sort(key=lambda r: r["day"], reverse=True)
    for k, r in enumerate(before[:PAST]):
        past[k] = per_hundred_metres(r)
        seen[k] = r["counts"] >= 0
        gap[k] = (row["day"] - r["day"]).days
    return past, gap, seen


def sample(row, everything, order, statistics):
    mean, std = statistics
    past, gap, seen = history(row, everything)
    turn = 2 * np.pi * row["day"].timetuple().tm_yday / 365.25
    effort = [float(row["length_m"]) / 100.0, float(row["minutes"]) * float(row["volunteers"]) / 60.0]
    return {
        "beach": np.int64(order[row["beach"]]),
        "season": np.float32(turn),
        "weather": ((np.log1p(tables.weather_of(row)) - mean) / std).astype(np.float32),
        "wind": np.array([float(row["wind_ms"]), np.deg2rad(float(row["wind_from"]))], dtype=np.float32),
        "past": past,
        "gap": gap,
        "seen": seen,
        "effort": np.log(np.array(effort)).astype(np.float32),
    }


class Surveys(Dataset):
    def __init__(self, split):
        self.everything = tables.surveys()
        keep = tables.training_rows if split == "train" else tables.held_out_rows
        self.rows = keep(self.everything)
        self.order = {b["beach"]: i for i, b in enumerate(tables.beaches())}
        self.statistics = tables.weather_statistics()

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        row = self.rows[index]
        out = sample(row, self.everything, self.order, self.statistics)
        out["labels"] = row["counts"]
        return out


def loader(split):
    return DataLoader(Surveys(split), batch_size=12, shuffle=False, drop_last=split == "train")
