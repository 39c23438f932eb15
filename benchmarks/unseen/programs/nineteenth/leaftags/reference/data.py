import json
import re
from collections import Counter

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from .config import CFG, DATA

PAD, UNK = 0, 1
TOKEN = re.compile(r"[a-z]+|\d")


class LabelTree:
    def __init__(self, path=DATA / "labels.json"):
        entries = json.loads(path.read_text())
        self.names = [e["name"] for e in entries]
        self.index = {n: i for i, n in enumerate(self.names)}
        self.parent = [self.index[e["parent"]] if e["parent"] else -1 for e in entries]

    def __len__(self):
        return len(self.names)

    def ancestors(self, i):
        while self.parent[i] >= 0:
            i = self.parent[i]
            yield i

    def encode(self, labels):
        """Multi-hot vector, closed upwards."""
        y = np.zeros(len(self), dtype=np.float32)
        for name in labels:
            i = self.index[name]
            y[i] = 1.0
            for a in self.ancestors(i):
                y[a] = 1.0
        return y

    def child_mean(self):
        m = np.zeros((len(self), len(self)), dtype=np.float32)
        for c, p in enumerate(self.parent):
            if p >= 0:
                m[p, c] = 1.0
        return m / np.maximum(m.sum(1, keepdims=True), 1.0)


def read_rows(split):
    rows = [json.loads(line) for line in open(DATA / "notes.jsonl")]
    return [r for r in rows if r["split"] == split]


def tokenize(text):
    return TOKEN.findall(text.lower())


class Vocab:
    def __init__(self, texts, min_freq=3):
        count = Counter(t for text in texts for t in tokenize(text))
        kept = [t for t, n in count.items() if n >= min_freq]
        kept.sort(key=lambda t: (-count[t], t))
        self.stoi = {t: i + 2 for i, t in enumerate(kept)}

    def __len__(self):
        return len(self.stoi) + 2


TREE = LabelTree()
VOCAB = Vocab([r["text"] for r in read_rows("train")])


class Tokenize:
    def __call__(self, s):
        return {**s, "tokens": tokenize(s["text"])}


class HeadTail:
    """Keeps the first 3/4 and the last quarter of what fits."""

    def __init__(self, max_len):
        self.max_len = max_len

    def __call__(self, s):
        t = s["tokens"]
        if len(t) > self.max_len:
            tail = self.max_len // 4
            t = t[: self.max_len - tail] + t[-tail:]
        return {**s, "tokens": t}


class Numericalize:
    def __call__(self, s):
        ids = np.array([VOCAB.stoi.get(t, UNK) for t in s["tokens"]], dtype=np.int64)
        return {**s, "tokens": ids}


class WordDrop:
    def __init__(self, p, seed):
        self.p, self.seed = p, seed

    def __call__(self, s):
        rng = np.random.RandomState(self.seed + s["id"])
        hit = rng.rand(len(s["tokens"])) < self.p
        return {**s, "tokens": np.where(hit, UNK, s["tokens"])}


def make_transforms(split):
    steps = [Tokenize(), HeadTail(CFG.model.max_len), Numericalize()]
    if split == "train":
        steps.append(WordDrop(CFG.train.word_drop, CFG.train.seed))
    return steps


class NoteDataset(Dataset):
    def __init__(self, split):
        self.rows = read_rows(split)
        self.transforms = make_transforms(split)
        self.lengths = [min(len(tokenize(r["text"])), CFG.model.max_len) for r in self.rows]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row = self.rows[i]
        s = {"id": row["id"], "text": row["text"]}
        for t in self.transforms:
            s = t(s)
        return {"tokens": s["tokens"], "labels": TREE.encode(row["labels"])}


class BucketBatchSampler(Sampler):
    """Pools of a permutation, sorted by length inside, batches shuffled."""

    def __init__(self, lengths, batch_size, pool, shuffle, seed):
        self.lengths, self.batch_size, self.pool = lengths, batch_size, pool
        self.shuffle, self.seed, self.epoch = shuffle, seed, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        full, rest = divmod(len(self.lengths), self.pool)
        per = lambda n: -(-n // self.batch_size)
        return full * per(self.pool) + per(rest)

    def __iter__(self):
        rng = np.random.RandomState(self.seed + self.epoch)
        n = len(self.lengths)
        order = rng.permutation(n) if self.shuffle else np.arange(n)
        batches = []
        for start in range(0, n, self.pool):
            pool = sorted(order[start : start + self.pool].tolist(), key=lambda i: self.lengths[i])
            batches += [pool[i : i + self.batch_size] for i in range(0, len(pool), self.batch_size)]
        if self.shuffle:
            batches = [batches[i] for i in rng.permutation(len(batches))]
        return iter(batches)


def collate(samples):
    width = max(len(s["tokens"]) for s in samples)
    tokens = torch.full((len(samples), width), PAD, dtype=torch.long)
    for row, s in zip(tokens, samples):
        row[: len(s["tokens"])] = torch.from_numpy(s["tokens"])
    return {"tokens": tokens, "labels": torch.from_numpy(np.stack([s["labels"] for s in samples]))}


def make_loader(split):
    ds = NoteDataset(split)
    sampler = BucketBatchSampler(ds.lengths, CFG.train.batch_size, CFG.train.pool, split == "train", CFG.train.seed)
    return DataLoader(ds, batch_sampler=sampler, collate_fn=collate)
