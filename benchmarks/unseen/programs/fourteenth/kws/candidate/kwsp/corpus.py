import os

import numpy as np
import paddle
from paddle.io import DataLoader, Dataset

from . import signal
from .settings import DATA, S


def vocabulary():
    with open(os.path.join(DATA, "words.txt")) as fh:
        return [line.strip() for line in fh if line.strip()]


def listing(split):
    with open(os.path.join(DATA, "manifest.csv")) as fh:
        head = fh.readline().strip().split(",")
        rows = [dict(zip(head, line.strip().split(","))) for line in fh]
    return [r for r in rows if r["split"] == split]


def roll_zero(x, limit):
    n = np.random.randint(-limit, limit + 1)
    y = np.zeros_like(x)
    if n >= 0:
        y[n:] = x[:len(x) - n]
    else:
        y[:n] = x[-n:]
    return y


def blank(f, widths, axis):
    for widest in widths:
        w = np.random.randint(0, widest + 1)
        first = np.random.randint(0, f.shape[axis] - w + 1)
        span = [slice(None), slice(None)]
        span[axis] = slice(first, first + w)
        f[tuple(span)] = 0.0
    return f


class Corpus(Dataset):
    def __init__(self, split, chain):
        super().__init__()
        self.chain = chain
        self.noisy = split == "train"
        self.rows = listing(split)
        self.words = vocabulary()

    def __getitem__(self, i):
        row = self.rows[i]
        x = signal.centre(signal.read_pcm(os.path.join(DATA, row["path"]), S.signal.rate), S.signal.length)
        if self.noisy:
            x = roll_zero(x, S.augment.shift)
        return self.chain(x), self.words.index(row["word"])

    def __len__(self):
        return len(self.rows)


def make_chain(split):
    def plain(x):
        return paddle.to_tensor(signal.features(np.asarray(x), S.signal))

    def masked(x):
        f = signal.features(np.asarray(x), S.signal)
        f = blank(f, S.augment.bands, axis=0)
        f = blank(f, S.augment.frames, axis=1)
        return paddle.to_tensor(f)

    return masked if split == "train" else plain


def collate(items):
    feats = paddle.stack([f for f, _ in items])
    return feats, paddle.to_tensor([y for _, y in items], dtype="int64")


def loader(split):
    shuffle = split == "train"
    return DataLoader(Corpus(split, make_chain(split)), batch_size=S.training.batch,
                      shuffle=shuffle, drop_last=shuffle, collate_fn=collate)
