import csv

import numpy as np
import torch
from torch.utils.data import Dataset


class ToFloat:
    def __call__(self, x):
        return x.astype(np.float32) / 32768.0


class PreEmphasis:
    def __init__(self, c=0.97):
        self.c = c

    def __call__(self, x):
        return np.append(x[:1], x[1:] - np.float32(self.c) * x[:-1])


class PeakNormalise:
    def __call__(self, x):
        return x / (np.abs(x).max() + 1e-6)


class FitLength:
    """cuts the middle out, or pads zeros on both sides"""

    def __init__(self, n):
        self.n = n

    def __call__(self, x):
        d = len(x) - self.n
        if d >= 0:
            return x[d // 2:d // 2 + self.n]
        return np.pad(x, (-d // 2, -d - -d // 2))


class PairSet(Dataset):
    def __init__(self, part, transform):
        z = np.load("words.npz")
        self.wave, self.word = z["wave"], z["word"]
        with open("pairs.csv") as f:
            self.rows = [(int(r["first"]), int(r["second"])) for r in csv.DictReader(f) if r["part"] == part]
        self.transform = transform

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, k):
        i, j = self.rows[k]
        a, b = (torch.from_numpy(np.asarray(self.transform(self.wave[n]), dtype=np.float32)) for n in (i, j))
        return a, b, torch.tensor(float(self.word[i] == self.word[j]))
