"""Windows of a table with a column ``date``, in ETT's form: the first 70 % of its rows to train, 10 % to validate, 20 % to test."""

import csv
import datetime as dt

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from .model import AHEAD, KNOWN, SEEN

SPLITS = ("train", "val", "test")


def read(path):
    """Stamps (month, day), int64 ``[N, 2]``, and values, float64 ``[N, C]``."""
    with path.open(newline="") as file:
        _, *rows = csv.reader(file)
    dates = [dt.date.fromisoformat(row[0]) for row in rows]
    return np.array([(date.month, date.day) for date in dates]), np.array([row[1:] for row in rows], dtype=np.float64)


class Scaler:
    """Mean 0 and deviation 1 by column, of the rows that are trained on."""

    def __init__(self, values):
        self.mean = values.mean(0)
        self.std = values.std(0)

    def scale(self, values):
        return (values - self.mean) / self.std

    def restore(self, values):
        return values * self.std + self.mean


def borders(length):
    """Where each split begins and ends; validation and test see the rows before them."""
    train, test = int(0.7 * length), int(0.2 * length)
    return {"train": (0, train), "val": (train - SEEN, length - test), "test": (length - test - SEEN, length)}


class Windows(Dataset):
    """Encoder values and stamps, decoder values (known ones, then zeros) and stamps, what is to be forecast."""

    def __init__(self, path, split):
        stamps, values = read(path)
        self.scaler = Scaler(values[: borders(len(values))["train"][1]])
        first, last = borders(len(values))[split]
        self.stamps = torch.from_numpy(stamps[first:last])
        self.values = torch.from_numpy(self.scaler.scale(values)[first:last]).float()

    def __len__(self):
        return len(self.values) - SEEN - AHEAD + 1

    def __getitem__(self, index):
        middle, end = index + SEEN, index + SEEN + AHEAD
        if not 0 <= index < len(self):
            raise IndexError(index)
        known = torch.cat([self.values[middle - KNOWN : middle], torch.zeros(AHEAD, self.values.shape[1])])
        return self.values[index:middle], self.stamps[index:middle], known, self.stamps[middle - KNOWN : end], self.values[middle:end]


def build_dataloader(dataset, *, shuffle, batch_size=32):
    return DataLoader(dataset, batch_size=batch_size, shuffle=shuffle, num_workers=0)
