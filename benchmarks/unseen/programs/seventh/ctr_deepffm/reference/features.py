"""Reads the click log; vocabularies and statistics come from the training part."""
import csv
import math
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

DATA = Path(__file__).resolve().parent.parent / "data"
FIELDS = ["user", "gender", "city", "item", "daytime"]
DENSE = ["age", "price"]
MAX_GENRES = 3


def read(split):
    with open(DATA / f"{split}.csv", newline="") as f:
        rows = list(csv.DictReader(f))
    for r in rows:
        r["daytime"] = str(int(r["hour"]) // 4)
        r["price"] = math.log1p(float(r["price"])) if r["price"] else None
        r["age"] = float(r["age"]) if r["age"] else None
        r["genres"] = r["genres"].split("|")
    return rows


class Encoder:
    def __init__(self, rows, min_count=2):
        self.vocab = {}
        for field in FIELDS:
            counts = Counter(r[field] for r in rows)
            self.vocab[field] = {v: i + 1 for i, v in enumerate(sorted(v for v, n in counts.items() if n >= min_count))}
        self.sizes = [len(self.vocab[f]) + 1 for f in FIELDS]                 # 0: unknown
        self.offsets = np.concatenate([[0], np.cumsum(self.sizes)[:-1]])
        genres = sorted({g for r in rows for g in r["genres"]})
        self.genres = {g: i + 1 for i, g in enumerate(genres)}                # 0: padding
        self.fill, self.mean, self.std = {}, {}, {}
        for d in DENSE:
            known = np.array([r[d] for r in rows if r[d] is not None])
            self.fill[d] = float(np.median(known))
            filled = np.array([self.fill[d] if r[d] is None else r[d] for r in rows])
            self.mean[d], self.std[d] = filled.mean(), filled.std()

    def __call__(self, row):
        cats = np.array([self.vocab[f].get(row[f], 0) for f in FIELDS]) + self.offsets
        dense = [((self.fill[d] if row[d] is None else row[d]) - self.mean[d]) / self.std[d] for d in DENSE]
        genres = np.zeros(MAX_GENRES, "int64")
        known = [self.genres[g] for g in row["genres"] if g in self.genres][:MAX_GENRES]
        genres[: len(known)] = known
        return torch.from_numpy(cats), torch.tensor(dense, dtype=torch.float32), torch.from_numpy(genres), torch.tensor(float(row["clicked"]))


encoder = Encoder(read("train"))


class Clicks(Dataset):
    def __init__(self, split):
        self.rows = read(split)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return encoder(self.rows[i])


def loader(split, batch_size=32):
    return DataLoader(Clicks(split), batch_size=batch_size, shuffle=split == "train")
