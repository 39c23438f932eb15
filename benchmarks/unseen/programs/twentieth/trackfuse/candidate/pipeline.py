"""From JSON records to padded batches."""
import functools
import json
import os

import numpy as np
from paddle.io import BatchSampler, DataLoader, Dataset

from .settings import PIPE, ROOT


def _nan(seq):
    return np.array(seq, dtype="float64")          # None becomes nan


def parse(rec):
    item = dict(query=_nan(rec["query"]))
    for name in "ab":
        item[f"{name}_time"], item[f"{name}_value"] = _nan(rec[name]["t"]), _nan(rec[name]["v"])
    if rec.get("truth") is not None:
        item["truth"] = _nan(rec["truth"])
    return item


@functools.lru_cache(maxsize=None)
def load_split(split):
    with open(os.path.join(ROOT, split + ".jsonl"), encoding="utf-8") as f:
        return tuple(json.loads(row) for row in f if row.strip())


@functools.lru_cache(maxsize=None)
def sensor_scale(name):
    readings = np.concatenate([parse(r)[f"{name}_value"] for r in load_split("train")])
    readings = readings[np.isfinite(readings)]
    return readings.mean(), readings.std(ddof=1)


def clean(item):
    item = dict(item)
    for name in "ab":
        t, v = item[f"{name}_time"], item[f"{name}_value"]
        ok = np.isfinite(v)
        stamps = np.unique(t[ok])
        item[f"{name}_value"] = np.array([v[ok][t[ok] == s].mean() for s in stamps])
        item[f"{name}_time"] = stamps
    return item


def truncate(item):
    return {k: (v[-PIPE["keep"]:] if k[:2] in ("a_", "b_") else v) for k, v in item.items()}


def normalise(item):
    start = min(item[k].min() for k in ("a_time", "b_time", "query"))
    item = dict(item)
    for key in ("query", "a_time", "b_time"):
        item[key] = (item[key] - start) / PIPE["unit"]
    for key, name in (("a_value", "a"), ("b_value", "b"), ("truth", "a")):
        if key in item:
            mu, sigma = sensor_scale(name)
            item[key] = (item[key] - mu) / sigma
    return item


def pack(item):
    truth = item.get("truth")
    out = {k: v.astype("float32") for k, v in item.items() if k != "truth"}
    if truth is not None:
        known = np.isfinite(truth)
        out["target"] = np.stack([np.nan_to_num(truth, nan=0.0), known.astype("float64")], -1).astype("float32")
    return out


STEPS = [clean, truncate, normalise, pack]


class Tracks(Dataset):
    def __init__(self, split):
        super().__init__()
        self.rows = load_split(split)
        self.transforms = list(STEPS)

    def __getitem__(self, index):
        return functools.reduce(lambda item, step: step(item), self.transforms, parse(self.rows[index]))

    def __len__(self):
        return len(self.rows)


def padded(arrays):
    out = np.zeros((len(arrays), max(map(len, arrays))), "float32")
    for row, a in zip(out, arrays):
        row[:len(a)] = a
    return out


def batchify(items):
    batch = {}
    for name in "ab":
        batch[f"{name}_len"] = np.array([it[f"{name}_time"].shape[0] for it in items], "int64")
        batch[f"{name}_time"] = padded([it[f"{name}_time"] for it in items])
        batch[f"{name}_value"] = padded([it[f"{name}_value"] for it in items])
    for key in ("query", "target"):
        if key in items[0]:
            batch[key] = np.stack([it[key] for it in items])
    return batch


class LengthBatches(BatchSampler):
    """Batches of similar length; `set_epoch` changes the draw."""

    def __init__(self, dataset, batch_size, chunk, seed):
        self.size = np.array([len(r["a"]["t"]) + len(r["b"]["t"]) for r in dataset.rows])
        self.batch_size, self.chunk, self.seed, self.epoch = batch_size, chunk, seed, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        state = np.random.RandomState(self.seed + self.epoch)
        perm = state.permutation(self.size.size)
        found = []
        for lo in range(0, perm.size, self.chunk):
            part = perm[lo:lo + self.chunk]
            part = np.array(sorted(part, key=lambda i: -self.size[i]))
            found.extend(np.split(part, range(self.batch_size, part.size, self.batch_size)))
        for k in state.permutation(len(found)):
            yield [int(i) for i in found[k]]

    def __len__(self):
        n, per = self.size.size, -(-self.chunk // self.batch_size)
        return n // self.chunk * per + -(-(n % self.chunk) // self.batch_size)


def loader(split):
    data = Tracks(split)
    if split == "train":
        order = LengthBatches(data, PIPE["batch"], PIPE["chunk"], PIPE["seed"])
        return DataLoader(data, batch_sampler=order, collate_fn=batchify)
    return DataLoader(data, batch_size=PIPE["batch"], shuffle=False, collate_fn=batchify)
