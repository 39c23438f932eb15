"""The couples' table: columns, statistics of the training rows, rows as tensors."""
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

DATA = Path(__file__).resolve().parent.parent / "data"
NUMERIC = ["age", "children", "educ", "rate_marriage"]
CATEGORICAL = {"religious": 4, "occupation": 6, "occupation_husb": 6}
KNOTS = 6
BATCH = 64


def folds(n):
    """Every fifth row is kept for validation."""
    rows = np.arange(n)
    return {"train": rows[rows % 5 != 4], "val": rows[rows % 5 == 4]}


@dataclass
class Statistics:
    median: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    knots: np.ndarray

    @classmethod
    def of(cls, frame):
        values = frame[NUMERIC].to_numpy(np.float64)
        median = np.nanmedian(values, axis=0)
        filled = np.where(np.isnan(values), median, values)
        std = filled.std(axis=0, ddof=1)
        knots = np.quantile((filled - filled.mean(0)) / std, np.linspace(0.05, 0.95, KNOTS), axis=0)
        return cls(median, filled.mean(axis=0), std, knots.T)


def load():
    frame = pd.read_csv(DATA / "couples.csv")
    return frame, Statistics.of(frame.iloc[folds(len(frame))["train"]])


class Impute:
    def __init__(self, stats):
        self.stats = stats

    def __call__(self, row):
        gap = np.isnan(row["numeric"])
        return {**row, "numeric": np.where(gap, self.stats.median, row["numeric"]), "gap": gap}


class Scale:
    def __init__(self, stats):
        self.stats = stats

    def __call__(self, row):
        return {**row, "numeric": (row["numeric"] - self.stats.mean) / self.stats.std}


class Encode:
    """Hinges at the knots beside the value; filled-in values have none, and a flag."""

    def __init__(self, stats):
        self.stats = stats

    def __call__(self, row):
        value = row["numeric"]
        hinges = np.maximum(value[:, None] - self.stats.knots, 0.0)
        hinges[row["gap"]] = 0.0
        numeric = np.concatenate([value[:, None], hinges, row["gap"][:, None]], axis=1)
        # codes start at one; zero is for what was never seen
        codes = [int(c) if 1 <= c <= size else 0 for c, size in zip(row["codes"], CATEGORICAL.values())]
        out = {"numeric": numeric.astype(np.float32), "codes": np.array(codes, np.int64)}
        if "target" in row:
            out["target"] = row["target"].astype(np.float32)
        return out


def transforms(stats):
    return [Impute(stats), Scale(stats), Encode(stats)]


class Couples(Dataset):
    def __init__(self, split="train", frame=None, stats=None):
        if frame is None:
            frame, stats = load()
            frame = frame.iloc[folds(len(frame))[split]]
        self.numeric = frame[NUMERIC].to_numpy(np.float64)
        self.codes = frame[list(CATEGORICAL)].to_numpy(np.float64)
        self.target = frame[["yrs_married", "event"]].to_numpy(np.float64) if "event" in frame else None
        self.transforms = transforms(stats)

    def __len__(self):
        return len(self.numeric)

    def __getitem__(self, i):
        row = {"numeric": self.numeric[i], "codes": self.codes[i]}
        if self.target is not None:
            row["target"] = self.target[i]
        for step in self.transforms:
            row = step(row)
        return row


class BalancedBatches(Sampler):
    """Every batch holds the same share of events; a batch without any teaches nothing."""

    def __init__(self, events, size, seed=3):
        self.events, self.size, self.seed, self.epoch = np.asarray(events), size, seed, 0

    def __len__(self):
        return len(self.events) // self.size

    def __iter__(self):
        rng = np.random.RandomState(self.seed + self.epoch)
        happened = rng.permutation(np.flatnonzero(self.events == 1))
        censored = rng.permutation(np.flatnonzero(self.events == 0))
        hs, cs = np.array_split(happened, len(self)), np.array_split(censored, len(self))
        for h, c in zip(hs, cs):
            yield rng.permutation(np.concatenate([h, c])).tolist()


def loader(split):
    data = Couples(split)
    if split == "train":
        return DataLoader(data, batch_sampler=BalancedBatches(data.target[:, 1], BATCH))
    return DataLoader(data, batch_size=BATCH, shuffle=False)
