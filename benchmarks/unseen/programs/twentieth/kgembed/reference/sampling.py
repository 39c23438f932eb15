"""Samples (head, relation, candidate tails). Column 0 of `tails` is the true one.

`labels`: column 0 holds the weight of the triple, the others 1 for a usable negative and 0 for one that is true too.
"""
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from .graph import GRAPH

NEGATIVES, BATCH, SEED = 24, 40, 2024


class TrainTriples(Dataset):
    def __init__(self):
        self.rows = GRAPH.triples["train"]
        self.epoch = 0

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        h, r, t = self.rows[i]
        rng = np.random.default_rng([SEED, self.epoch, i])
        uniform = rng.integers(0, GRAPH.n_ent, NEGATIVES // 2)
        typed = rng.choice(np.array(sorted(GRAPH.range[r])), NEGATIVES - NEGATIVES // 2)
        tails = np.concatenate([[t], uniform, typed])
        usable = ~np.isin(tails, list(GRAPH.known[h, r]))
        labels = usable.astype(np.float32)
        labels[0] = GRAPH.subsampling_weight(h, r, t)
        return {"head": np.int64(h), "rel": np.int64(r), "tails": tails.astype(np.int64), "labels": labels}


class RankTriples(Dataset):
    """Every entity is a candidate; those that are known to be true are filtered."""

    def __init__(self, split):
        self.rows = GRAPH.triples[split]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        h, r, t = self.rows[i]
        others = np.delete(np.arange(GRAPH.n_ent), t)
        labels = np.ones(GRAPH.n_ent, dtype=np.float32)
        labels[1:] = ~np.isin(others, list(GRAPH.known[h, r]))
        labels[0] = GRAPH.subsampling_weight(h, r, t)
        return {"head": np.int64(h), "rel": np.int64(r), "tails": np.append(t, others), "labels": labels}


class EpochSampler(Sampler):
    def __init__(self, dataset):
        self.dataset = dataset

    def __iter__(self):
        return iter(np.random.RandomState(SEED + self.dataset.epoch).permutation(len(self.dataset)).tolist())

    def __len__(self):
        return len(self.dataset)


def make_dataset(split):
    return TrainTriples() if split == "train" else RankTriples(split)


def make_loader(split):
    ds = make_dataset(split)
    if split == "train":
        return DataLoader(ds, batch_size=BATCH, sampler=EpochSampler(ds), drop_last=True)
    return DataLoader(ds, batch_size=BATCH)
