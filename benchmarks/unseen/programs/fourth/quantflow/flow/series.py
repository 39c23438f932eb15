"""numpy side of the data: reading, filling, scaling, cutting windows."""
import numpy as np
from paddle.io import Dataset


def load_table(path):
    raw = np.genfromtxt(path, delimiter=",", skip_header=1)
    return {int(s): raw[raw[:, 0] == s][:, 1:].T for s in np.unique(raw[:, 0])}


def fill(values):
    """last value carried on, and a flag for what was measured"""
    measured = ~np.isnan(values)
    last = np.maximum.accumulate(np.where(measured, np.arange(len(values)), 0))
    return values[last], measured


class Standardizer:
    def __init__(self, table, share, ddof=1, floor=1e-3):
        self.store = {}
        warmth = []
        for key, (_, sales, temp) in table.items():
            head = int(len(sales) * share)
            part = fill(sales)[0][:head]
            self.store[key] = (part.mean(), max(part.std(ddof=ddof), floor))
            warmth.append(temp[:head])
        warmth = np.concatenate(warmth)
        self.temp = (warmth.mean(), warmth.std(ddof=ddof))

    def encode(self, key, hours, sales, temp):
        phase = hours * (np.pi / 12)
        columns = [
            (sales - self.store[key][0]) / self.store[key][1],
            (temp - self.temp[0]) / self.temp[1],
            np.sin(phase),
            np.cos(phase),
        ]
        return np.stack(columns, axis=1)

    def decode(self, key, values):
        mean, std = self.store[key]
        return values * std + mean


class SlidingWindows(Dataset):
    def __init__(self, path, split, past=24, horizon=6, stride=5, share=0.7):
        super().__init__()
        table = load_table(path)
        self.standardizer = Standardizer(table, share)
        self.past = past
        self.windows = []
        length = past + horizon
        for key in table:
            hours, sales, temp = table[key]
            sales, measured = fill(sales)
            rows = self.standardizer.encode(key, hours, sales, temp).astype("float32")
            border = int(share * len(sales))
            begin, end = {"train": (0, border), "val": (border - past, len(sales))}[split]
            start = begin
            while start + length <= end:
                self.windows.append((key, rows[start:start + length], measured[start:start + length]))
                start += stride

    def __getitem__(self, n):
        key, rows, measured = self.windows[n]
        ahead = rows[self.past:]
        target = np.stack([ahead[:, 0], measured[self.past:].astype("float32")], axis=-1)
        return {"past": rows[:self.past], "future": ahead[:, 1:], "store": np.array(key, "int64"), "labels": target}

    def __len__(self):
        return len(self.windows)
