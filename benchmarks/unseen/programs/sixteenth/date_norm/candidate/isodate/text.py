"""Characters, pairs, batches."""
import json
import os

import numpy as np
from paddle.io import BatchSampler, DataLoader, Dataset

DATA_DIR = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "data")


def load_json(name):
    with open(os.path.join(DATA_DIR, name), encoding="utf-8") as f:
        return json.load(f)


class Alphabet:
    pad, bos, eos, unk = 0, 1, 2, 3

    def __init__(self):
        spec = load_json("vocabulary.json")
        self.table = list(spec["specials"])
        self.table.extend(spec["characters"])
        self.lookup = dict(zip(self.table, range(len(self.table))))

    @property
    def size(self):
        return len(self.table)

    def ids(self, string):
        return [self.lookup[c] if c in self.lookup else self.unk for c in string]

    def written(self, string, limit):
        """Ids of a date as people write it: lower case, single blanks, cut off, with the end symbol."""
        clean = " ".join(string.lower().split())
        return clean, self.ids(clean)[:limit] + [self.eos]

    def string(self, ids):
        return "".join(self.table[i] for i in ids if i >= self.unk)


class Pairs(Dataset):
    def __init__(self, alphabet, split, limit):
        super().__init__()
        self.x, self.y = [], []
        with open(os.path.join(DATA_DIR, split + ".tsv"), encoding="utf-8") as f:
            for left, right in (row.strip("\n").split("\t") for row in f):
                self.x.append(alphabet.written(left, limit)[1])
                self.y.append([alphabet.bos, *alphabet.ids(right), alphabet.eos])

    def __getitem__(self, i):
        return np.asarray(self.x[i], dtype="int64"), np.asarray(self.y[i], dtype="int64")

    def __len__(self):
        return len(self.x)


class LengthBuckets(BatchSampler):
    def __init__(self, lengths, budget, seed=None):
        self.seed, self.epoch = seed, 0
        order = np.argsort(-np.asarray(lengths), kind="stable").tolist()
        self.buckets = [[]]
        for i in order:
            bucket = self.buckets[-1]
            # the first of a bucket is its longest
            if bucket and (len(bucket) + 1) * lengths[bucket[0]] > budget:
                self.buckets.append([i])
            else:
                bucket.append(i)

    def __len__(self):
        return len(self.buckets)

    def __iter__(self):
        turn = np.arange(len(self.buckets))
        if self.seed is not None:
            np.random.RandomState(self.seed + self.epoch).shuffle(turn)
        for t in turn:
            yield self.buckets[t]


def padded(rows):
    out = np.full((len(rows), max(len(r) for r in rows)), Alphabet.pad, dtype="int64")
    for line, r in zip(out, rows):
        line[:len(r)] = r
    return out


def together(samples):
    target = padded([s[1] for s in samples])
    return padded([s[0] for s in samples]), target[:, :-1].copy(), target[:, 1:].copy()


def loader(alphabet, split, config):
    pairs = Pairs(alphabet, split, config["max_source"])
    seed = config["batch"]["seed"] if split == "train" else None
    buckets = LengthBuckets([len(x) for x in pairs.x], config["batch"]["tokens"], seed)
    return DataLoader(pairs, batch_sampler=buckets, collate_fn=together)
