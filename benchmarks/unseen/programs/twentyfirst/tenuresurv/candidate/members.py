"""Member tables for Paddle: pandas in, numpy out."""
import os
from functools import lru_cache

import numpy as np
import pandas as pd
from paddle.io import BatchSampler, DataLoader, Dataset

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "data")
NUMBERS = ["income", "disease", "visits", "cap", "limits"]
LOGGED = [2, 3]
LEVELS = ["plan", "health", "region"]
EDGES = np.array([1.5, 3, 4.5, 6, 8, 10, 12, 14, 16, 18, 21, 24], dtype="float64")
BATCH = 32


def table(path):
    return pd.read_csv(path, dtype=str, keep_default_na=False)


@lru_cache(maxsize=None)
def fold(split):
    frame = table(os.path.join(ROOT, "members.csv"))
    return frame[frame["fold"] == {"train": "fit", "val": "val"}[split]].reset_index(drop=True)


@lru_cache(maxsize=None)
def codebook(rare=12):
    """One dict per categorical column; levels seen fewer than `rare` times have no code of their own."""
    books = []
    for column in LEVELS:
        counts = fold("train")[column].value_counts()
        counts = counts[(counts >= rare) & (counts.index != "")]
        ranked = sorted(counts.items(), key=lambda kv: (-kv[1], kv[0]))
        books.append({level: code for code, (level, _) in enumerate(ranked, start=1)})
    return books


def parse(record):
    x = np.asarray([np.nan if record[c] == "" else float(record[c]) for c in NUMBERS], "float32")
    return dict(row=record, x=x)


def compress(item):
    x = np.array(item["x"])
    x[LOGGED] = np.log1p(x[LOGGED])
    return dict(item, x=x)


def mark(item):
    seen = np.isfinite(item["x"])
    return dict(item, x=np.nan_to_num(item["x"]).astype("float32"), seen=seen.astype("float32"))


def look_up(item):
    codes = [book.get(item["row"][c], 0) for c, book in zip(LEVELS, codebook())]
    return dict(x=item["x"], seen=item["seen"], codes=np.asarray(codes, "int64"))


PIPELINE = [parse, compress, mark, look_up]


def arrays(frame):
    items = frame.to_dict("records")
    for step in PIPELINE:
        items = [step(item) for item in items]
    return [np.stack([item[key] for item in items]) for key in ("x", "seen", "codes")]


class Members(Dataset):
    def __init__(self, split):
        super().__init__()
        self.frame = fold(split)
        self.records = self.frame.to_dict("records")
        self.transforms = list(PIPELINE)
        self.months = self.frame["months"].astype("float32").to_numpy()
        self.left = self.frame["left"].astype("float32").to_numpy()

    def __getitem__(self, i):
        item = self.records[i]
        for step in self.transforms:
            item = step(item)
        return item["x"], item["seen"], item["codes"], np.array([self.months[i], self.left[i]], "float32")

    def __len__(self):
        return len(self.records)


class EventBatches(BatchSampler):
    def __init__(self, dataset, batch_size=BATCH, seed=11):
        super().__init__(dataset=dataset, batch_size=batch_size)
        self.pools = [np.flatnonzero(dataset.left == 1), np.flatnonzero(dataset.left == 0)]
        self.count = -(-len(dataset) // batch_size)
        self.seed, self.epoch = seed, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        rng = np.random.RandomState(self.seed + self.epoch)
        parts = [np.array_split(rng.permutation(pool), self.count) for pool in self.pools]
        for pair in zip(*parts):
            yield sorted(int(i) for part in pair for i in part)

    def __len__(self):
        return self.count


def loader(split):
    dataset = Members(split)
    if split == "train":
        return DataLoader(dataset, batch_sampler=EventBatches(dataset))
    return DataLoader(dataset, batch_size=BATCH, shuffle=False, drop_last=False)


@lru_cache(maxsize=None)
def moments():
    """(mean, variance) of the observed numbers of the fitting fold."""
    x, seen, _ = arrays(fold("train"))
    x = np.ma.masked_array(x.astype("float64"), mask=seen == 0)
    return x.mean(axis=0).data, x.var(axis=0, ddof=0).data


@lru_cache(maxsize=None)
def base_hazard():
    months = fold("train")["months"].astype(float).to_numpy()
    left = fold("train")["left"].astype(int).to_numpy()
    where = np.digitize(months, EDGES, right=True)
    deaths = np.bincount(where[left == 1], minlength=len(EDGES))[:len(EDGES)]
    at_risk = np.array([(where > k).sum() for k in range(len(EDGES))]) + deaths
    return (deaths + 0.5) / (at_risk + 1.0)
