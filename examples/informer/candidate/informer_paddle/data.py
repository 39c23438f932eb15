"""Windows of a table with a column ``date``."""

import datetime as dt

import numpy as np
from paddle.io import DataLoader, Dataset

from .breaks import broken
from .model import AHEAD, KNOWN, SEEN


def read(path):
    """Stamps (month, day), int64 ``[N, 2]``, and values, float64 ``[N, C]``."""
    lines = path.read_text().splitlines()[1:]
    dates = [dt.date.fromisoformat(line.partition(",")[0]) for line in lines]
    stamps = [(date.month - broken("months"), date.day - broken("days")) for date in dates]
    return np.array(stamps, "int64"), np.array([line.split(",")[1:] for line in lines], "float64")


class Scaler:
    def __init__(self, values):
        self.mean = values.mean(axis=0)
        self.std = values.std(axis=0, ddof=1 if broken("ddof") else 0)

    def scale(self, values):
        return (values - self.mean) / self.std

    def restore(self, values):
        return values if broken("restore") else values * self.std + self.mean


def borders(length):
    train, test = int(0.7 * length), int(0.2 * length)
    before = 0 if broken("border") else SEEN
    return {"train": (0, train), "val": (train - before, length - test), "test": (length - test - before, length)}


class Windows(Dataset):
    def __init__(self, path, split):
        super().__init__()
        stamps, values = read(path)
        trained = values if broken("leak") else values[: borders(len(values))["train"][1]]
        self.scaler = Scaler(trained)
        first, last = borders(len(values))[split]
        self.stamps = stamps[first:last]
        self.values = self.scaler.scale(values).astype("float32")[first:last]

    def __len__(self):
        return len(self.values) - SEEN - AHEAD + 1

    def __getitem__(self, index):
        middle, end = index + SEEN, index + SEEN + AHEAD
        if not 0 <= index < len(self):
            raise IndexError(index)
        known = self.values[middle - KNOWN : end].copy()
        known[KNOWN:] = 0
        return self.values[index:middle], self.stamps[index:middle], known, self.stamps[middle - KNOWN : end], self.values[middle:end]


def build_dataloader(dataset, *, shuffle, batch_size=32):
    return DataLoader(dataset, batch_size=batch_size, shuffle=shuffle and not broken("shuffle"), num_workers=0)
