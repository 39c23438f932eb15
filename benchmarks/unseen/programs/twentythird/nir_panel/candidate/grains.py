"""Settings, preprocessing, data set and batches."""
import csv
import json
import os

import numpy as np
from paddle.io import BatchSampler, Dataset

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(os.path.dirname(HERE), "data")


def settings(name):
    with open(os.path.join(HERE, "settings", name + ".json")) as f:
        return json.load(f)


CFG = settings("data")
STEPS = {}


def step(fn):
    STEPS[fn.__name__] = fn
    return fn


@step
def snv(x):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred ** 2).sum(axis=-1, keepdims=True) / (x.shape[-1] - 1))


@step
def slope(x):
    d = np.empty_like(x)
    d[..., 1:-1] = (x[..., 2:] - x[..., :-2]) / 2
    d[..., 0] = x[..., 1] - x[..., 0]
    d[..., -1] = x[..., -1] - x[..., -2]
    return np.stack([x, 10.0 * d], axis=-2)


def prepare(x):
    for name in CFG["steps"]:
        x = STEPS[name](x)
    return x.astype("float32")


def target_scale(table):
    rows = [[float(r[a]) for a in CFG["analytes"]] for r in table if r["split"] == "train"]
    rows = np.array(rows)
    return rows.mean(axis=0), rows.std(axis=0)


def read_table():
    with open(os.path.join(DATA, "samples.csv"), newline="") as f:
        return list(csv.DictReader(f))


class Grains(Dataset):
    def __init__(self, split):
        super().__init__()
        table = read_table()
        mean, std = target_scale(table)
        spectra = np.load(os.path.join(DATA, "spectra.npy"))
        self.items = []
        for i, r in enumerate(table):
            if r["split"] != split:
                continue
            y = (np.array([float(r[a]) for a in CFG["analytes"]]) - mean) / std
            kind = np.int64(CFG["kinds"].index(r["kind"]))
            self.items.append((prepare(spectra[i].astype("float64")), {"y": y.astype("float32"), "kind": kind}))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class RoundRobin(BatchSampler):
    def __init__(self, kinds):
        self.by_kind = [[i for i, k in enumerate(kinds) if k == c] for c in range(len(CFG["kinds"]))]
        self.size = CFG["batch"]
        self.count = len(kinds) // self.size
        self.epoch = 0

    def __len__(self):
        return self.count

    def __iter__(self):
        rng = np.random.RandomState(CFG["seed"] + self.epoch)
        self.epoch += 1
        ranked = []
        for c, members in enumerate(self.by_kind):
            ranked += [(turn, c, i) for turn, i in enumerate(rng.permutation(members).tolist())]
        order = [i for _, _, i in sorted(ranked)]
        for b in range(self.count):
            yield order[b * self.size:(b + 1) * self.size]
