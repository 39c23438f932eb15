"""Sliding windows over a table of sensors with holes."""
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Scaler:
    def fit(self, values):
        self.mean = np.nanmean(values, axis=0)
        self.std = np.nanstd(values, axis=0)
        return self

    def __call__(self, values):
        return (values - self.mean) / self.std


def forward_fill(values):
    """The last value that was seen; what comes before the first one is the mean, 0 after scaling."""
    filled = values.copy()
    for c in range(filled.shape[1]):
        last = 0.0
        for t in range(len(filled)):
            if np.isnan(filled[t, c]):
                filled[t, c] = last
            last = filled[t, c]
    return filled


def calendar(start, length):
    hours = start + np.arange(length)
    hour = (hours % 24) / 23.0 - 0.5
    day = (hours // 24 % 7) / 6.0 - 0.5
    return np.stack([hour, day], axis=1)


class Windows(Dataset):
    def __init__(self, config, split):
        with np.load(config.path) as stored:
            raw = stored["values"].astype(np.float64)
            start = int(stored["start"])
        n = len(raw)
        first, second = (int(n * b) for b in config.borders)
        scaled = Scaler().fit(raw[:first])(raw)
        # the windows of a later split may look back into the one before, but not forecast it
        lower, upper = {"train": (0, first), "val": (first - config.context, second), "test": (second - config.context, n)}[split]
        self.inputs = forward_fill(scaled)[lower:upper]
        self.targets = scaled[lower:upper]
        self.marks = calendar(start, n)[lower:upper]
        self.context, self.horizon = config.context, config.horizon
        self.starts = range(0, upper - lower - config.context - config.horizon + 1, config.stride)

    def __len__(self):
        return len(self.starts)

    def __getitem__(self, index):
        s = self.starts[index]
        m = s + self.context
        e = m + self.horizon
        past = torch.as_tensor(self.inputs[s:m], dtype=torch.float32)
        ahead = torch.as_tensor(self.marks[m:e], dtype=torch.float32)
        target = torch.as_tensor(self.targets[m:e], dtype=torch.float32)
        return past, ahead, target


def loader(config, split):
    return DataLoader(Windows(config, split), batch_size=config.batch_size, shuffle=False, drop_last=split == "train")
