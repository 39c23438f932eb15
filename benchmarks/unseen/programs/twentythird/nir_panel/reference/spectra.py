import csv
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import Dataset

from registry import CONFIG, PREPROCESS

DATA = Path(__file__).resolve().parent.parent / "data"
C = CONFIG.data


@PREPROCESS.register("snv")
def snv(x):
    return (x - x.mean(-1, keepdims=True)) / x.std(-1, ddof=1, keepdims=True)


@PREPROCESS.register("slope")
def slope(x):
    return np.stack([x, 10.0 * np.gradient(x, axis=-1)], axis=-2)


def prepare(x):
    for name in C.steps:
        x = PREPROCESS[name](x)
    return x.astype("float32")


class Panel(Dataset):
    def __init__(self, split):
        with open(DATA / "samples.csv", newline="") as f:
            table = list(csv.DictReader(f))
        val = np.array([[float(r[a]) for a in C.analytes] for r in table])
        train = np.array([r["split"] == "train" for r in table])
        self.mean, self.std = val[train].mean(0), val[train].std(0)
        rows = np.flatnonzero([r["split"] == split for r in table])
        self.x = prepare(np.load(DATA / "spectra.npy")[rows].astype("float64"))
        self.y = ((val[rows] - self.mean) / self.std).astype("float32")
        self.kind = np.array([C.kinds.index(table[r]["kind"]) for r in rows])

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return torch.from_numpy(self.x[i]), {"y": torch.from_numpy(self.y[i]), "kind": torch.tensor(self.kind[i])}


class Balanced:
    """Batches that take the kinds in turn."""

    def __init__(self, kinds):
        self.kinds, self.epoch = kinds, 0

    def __len__(self):
        return len(self.kinds) // C.batch

    def __iter__(self):
        rng = np.random.RandomState(C.seed + self.epoch)
        self.epoch += 1
        queues = [rng.permutation(np.flatnonzero(self.kinds == k)).tolist() for k in range(len(C.kinds))]
        order = []
        while any(queues):
            for q in queues:
                if q:
                    order.append(q.pop(0))
        for b in range(len(self)):
            yield order[b * C.batch:(b + 1) * C.batch]
