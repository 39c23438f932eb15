"""Reading member tables, vocabularies, masks of missing values and the stratified batch sampler."""
import csv
import math

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from .settings import CFG, DATA

FOLDS = {"train": "fit", "val": "val"}


def read_rows(path):
    with open(path, newline="") as handle:
        return list(csv.DictReader(handle))


class Vocabulary:
    """Levels of the categorical columns, most frequent first; 0 stands for unknown, missing or rare."""

    def __init__(self, rows, columns, min_count):
        self.columns = columns
        self.tables = []
        for column in columns:
            counts = {}
            for row in rows:
                if row[column]:
                    counts[row[column]] = counts.get(row[column], 0) + 1
            kept = sorted((level for level, n in counts.items() if n >= min_count),
                          key=lambda level: (-counts[level], level))
            self.tables.append({level: i + 1 for i, level in enumerate(kept)})

    @property
    def sizes(self):
        return [len(table) + 1 for table in self.tables]

    def encode(self, row):
        return np.array([t.get(row[c], 0) for c, t in zip(self.columns, self.tables)], dtype=np.int64)


def fit_rows():
    return [row for row in read_rows(DATA / "members.csv") if row["fold"] == "fit"]


_vocabulary = None


def vocabulary():
    global _vocabulary
    if _vocabulary is None:
        _vocabulary = Vocabulary(fit_rows(), CFG.categorical, CFG.min_count)
    return _vocabulary


class ParseNumbers:
    def __call__(self, row):
        values = np.array([float(row[c]) if row[c] != "" else np.nan for c in CFG.numeric], dtype=np.float32)
        return {"row": row, "x": values}


class LogScale:
    def __call__(self, sample):
        x = sample["x"].copy()
        for column in CFG.log_scaled:
            i = CFG.numeric.index(column)
            x[i] = np.log1p(x[i])
        return {**sample, "x": x}


class SplitMissing:
    """NaN -> 0 with a mask that is 1 where the value was observed."""

    def __call__(self, sample):
        seen = ~np.isnan(sample["x"])
        return {**sample, "x": np.where(seen, sample["x"], 0).astype(np.float32), "seen": seen.astype(np.float32)}


class EncodeLevels:
    def __call__(self, sample):
        codes = vocabulary().encode(sample.pop("row"))
        return {"x": sample["x"], "seen": sample["seen"], "codes": codes}


def make_transforms():
    return [ParseNumbers(), LogScale(), SplitMissing(), EncodeLevels()]


def apply(transforms, row):
    sample = row
    for t in transforms:
        sample = t(sample)
    return sample


class MemberTable(Dataset):
    def __init__(self, split):
        self.rows = [row for row in read_rows(DATA / "members.csv") if row["fold"] == FOLDS[split]]
        self.transforms = make_transforms()
        self.target = np.array([[float(r["months"]), float(r["left"])] for r in self.rows], dtype=np.float32)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        s = apply(self.transforms, self.rows[index])
        return s["x"], s["seen"], s["codes"], self.target[index]


class StratifiedBatches(Sampler):
    """Every batch gets its share of leavers, so that the partial likelihood never lacks events."""

    def __init__(self, events, batch_size, seed):
        self.leavers = np.flatnonzero(events == 1)
        self.stayers = np.flatnonzero(events == 0)
        self.n = math.ceil(len(events) / batch_size)
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return self.n

    def __iter__(self):
        rng = np.random.RandomState(self.seed + self.epoch)
        leavers, stayers = rng.permutation(self.leavers), rng.permutation(self.stayers)
        for a, b in zip(np.array_split(leavers, self.n), np.array_split(stayers, self.n)):
            yield np.sort(np.concatenate([a, b])).tolist()


def make_loader(split):
    table = MemberTable(split)
    if split == "train":
        return DataLoader(table, batch_sampler=StratifiedBatches(table.target[:, 1], CFG.batch_size, CFG.sampler_seed))
    return DataLoader(table, batch_size=CFG.batch_size, shuffle=False, drop_last=False)


def fit_statistics():
    """Mean and population deviation of the observed numbers, and the hazard of every interval, of the fitting fold."""
    table = MemberTable("train")
    samples = [apply(table.transforms, row) for row in table.rows]
    x = np.stack([s["x"] for s in samples]).astype(np.float64)
    seen = np.stack([s["seen"] for s in samples]).astype(np.float64)
    n = seen.sum(0)
    mean = (x * seen).sum(0) / n
    var = (((x - mean) ** 2) * seen).sum(0) / n
    interval = np.searchsorted(np.array(CFG.edges), table.target[:, 0], side="left")
    left = table.target[:, 1]
    hazard = []
    for k in range(CFG.bins):
        deaths = ((interval == k) & (left == 1)).sum()
        at_risk = (interval > k).sum() + deaths
        hazard.append((deaths + 0.5) / (at_risk + 1.0))
    return mean, var, np.array(hazard)


def to_tensors(path):
    rows = read_rows(path)
    samples = [apply(make_transforms(), row) for row in rows]
    return tuple(torch.from_numpy(np.stack([s[k] for s in samples])) for k in ("x", "seen", "codes"))
