"""Triples, their filters and the loaders."""
import os
from collections import defaultdict

import numpy as np
from paddle.io import BatchSampler, DataLoader, Dataset

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "data")
N_NEG, BATCH_SIZE, SEED = 24, 40, 2024


class Vocabulary:
    """Names to numbers; every relation has a reversed twin R places further on."""

    def __init__(self, splits=("train", "val", "extra")):
        names = {s: np.loadtxt(os.path.join(FOLDER, s + ".tsv"), dtype=str, delimiter="\t") for s in splits}
        table = np.concatenate(list(names.values()))
        self.towns = np.unique(table[:, [0, 2]])
        self.kinds = np.unique(table[:, 1])
        self.E, self.R = len(self.towns), len(self.kinds)
        self.rows = {s: self._expand(t) for s, t in names.items()}

        self.true_tails = defaultdict(set)
        for h, r, t in np.concatenate(list(self.rows.values())).tolist():
            self.true_tails[h, r].add(t)
        train = self.rows["train"]
        self.seen_tails = [np.unique(train[train[:, 1] == r, 2]) for r in range(2 * self.R)]
        self.freq = np.zeros((self.E, 2 * self.R), "int64")
        np.add.at(self.freq, (train[:, 0], train[:, 1]), 1)

    def town(self, name):
        return int(np.searchsorted(self.towns, name))

    def kind(self, name):
        return int(np.searchsorted(self.kinds, name))

    def _expand(self, table):
        h, t = (np.searchsorted(self.towns, table[:, c]) for c in (0, 2))
        r = np.searchsorted(self.kinds, table[:, 1])
        both = np.stack([np.stack([h, r, t], 1), np.stack([t, r + self.R, h], 1)], axis=1)
        return both.reshape(-1, 3)

    def weight(self, h, r, t):
        back = r + self.R if r < self.R else r - self.R
        return 1.0 / np.sqrt(4.0 + self.freq[h, r] + self.freq[t, back])

    def edge_list(self):
        h, r, t = self.rows["train"].T
        incoming = np.zeros((self.E, 2 * self.R))
        np.add.at(incoming, (t, r), 1)
        return h, r, t, (1.0 / incoming[t, r]).astype("float32")


VOCAB = Vocabulary()


class Queries(Dataset):
    def __init__(self, split):
        super().__init__()
        self.rows, self.train, self.epoch = VOCAB.rows[split], split == "train", 0

    def __len__(self):
        return self.rows.shape[0]

    def _negatives(self, i, r, t):
        if not self.train:
            return np.array([e for e in range(VOCAB.E) if e != t])
        rng = np.random.default_rng([SEED, self.epoch, i])
        half = N_NEG // 2
        return np.r_[rng.integers(0, VOCAB.E, half), rng.choice(VOCAB.seen_tails[r], N_NEG - half)]

    def __getitem__(self, i):
        h, r, t = (int(x) for x in self.rows[i])
        others = self._negatives(i, r, t)
        truth = VOCAB.true_tails[h, r]
        labels = [VOCAB.weight(h, r, t)] + [0.0 if int(e) in truth else 1.0 for e in others]
        return dict(head=np.int64(h), rel=np.int64(r), tails=np.r_[t, others].astype("int64"),
                    labels=np.array(labels, "float32"))


class Epochs(BatchSampler):
    def __init__(self, data, batch_size):
        self.data, self.batch_size = data, batch_size

    def __len__(self):
        return len(self.data) // self.batch_size

    def __iter__(self):
        order = np.random.RandomState(SEED + self.data.epoch).permutation(len(self.data))
        for k in range(len(self)):
            yield order[k * self.batch_size:(k + 1) * self.batch_size].tolist()


def reader(split):
    data = Queries(split)
    if data.train:
        return DataLoader(data, batch_sampler=Epochs(data, BATCH_SIZE))
    return DataLoader(data, batch_size=BATCH_SIZE, shuffle=False, drop_last=False)
