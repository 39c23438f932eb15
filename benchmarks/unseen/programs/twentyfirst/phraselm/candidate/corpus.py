"""Character corpus for the Paddle port."""
import collections
import os
import re
import unicodedata

import numpy as np
from paddle.io import BatchSampler, DataLoader, Dataset

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data")
SPECIAL = ["<pad>", "<bos>", "<eos>", "<unk>"]
PAD, BOS, EOS, UNK = 0, 1, 2, 3
LIMIT = 56
BATCH_SIZE = 12


def normalise(s):
    return " ".join(unicodedata.normalize("NFKC", s).lower().split())


def hide_numbers(s):
    return re.sub("[0-9]+", "#", s)


def read_lines(part):
    with open(os.path.join(FOLDER, "phrases.txt"), encoding="utf-8") as f:
        lines = f.read().splitlines()
    if part == "train":
        return [s for n, s in enumerate(lines) if n % 7 != 6]
    return lines[6::7]


def build_vocab(at_least=3):
    tally = collections.Counter()
    for s in read_lines("train"):
        tally.update(hide_numbers(normalise(s)))
    return SPECIAL + sorted(c for c in tally if tally[c] >= at_least)


VOCAB = build_vocab()
CODE = {c: n for n, c in enumerate(VOCAB)}


def to_ids(s):
    return np.asarray([BOS, *(CODE.get(c, UNK) for c in s)], dtype="int64")


def to_text(ids):
    shown = {PAD: "", BOS: "", EOS: "", UNK: "?"}
    return "".join(shown.get(i, VOCAB[i]) for i in ids)


def finish(ids):
    if len(ids) < LIMIT:
        ids = np.concatenate([ids, [EOS]])
    return ids[:LIMIT]


STEPS = [normalise, hide_numbers, to_ids, finish]


class Phrases(Dataset):
    def __init__(self, part):
        super().__init__()
        self.lines, self.transforms = read_lines(part), STEPS

    def __getitem__(self, n):
        item = self.lines[n]
        for step in self.transforms:
            item = step(item)
        return item

    def __len__(self):
        return len(self.lines)


class LengthBatches(BatchSampler):
    def __init__(self, dataset, batch_size=BATCH_SIZE, pool=4, seed=21):
        super().__init__(dataset=dataset, batch_size=batch_size)
        self.sizes = np.array([len(dataset[n]) for n in range(len(dataset))])
        self.pool, self.seed, self.epoch = pool * batch_size, seed, 0

    def __iter__(self):
        rng = np.random.RandomState(1000 * self.seed + self.epoch)
        shuffled = rng.permutation(len(self.sizes))
        groups = []
        for pool in np.split(shuffled, range(self.pool, len(shuffled), self.pool)):
            by_length = sorted(pool.tolist(), key=lambda n: self.sizes[n])
            groups.extend(by_length[k:k + self.batch_size] for k in range(0, len(by_length), self.batch_size))
        for g in rng.permutation(len(groups)):
            yield groups[g]


def pad_batch(items):
    width = max(len(ids) for ids in items)
    grid = np.stack([np.pad(ids, (0, width - len(ids)), constant_values=PAD) for ids in items])
    inputs = grid[:, :-1].copy()
    for row, ids in zip(inputs, items):
        row[len(ids) - 1:] = PAD                    # the last token is a target only
    return inputs, grid[:, 1:].copy()


def loader(part):
    data = Phrases(part)
    if part == "train":
        return DataLoader(data, batch_sampler=LengthBatches(data), collate_fn=pad_batch)
    return DataLoader(data, batch_size=BATCH_SIZE, collate_fn=pad_batch)
