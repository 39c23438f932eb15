"""Phrases as characters: cleaning, the alphabet, length buckets and padding."""
import re
import unicodedata
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

DATA = Path(__file__).resolve().parent.parent / "data"
PAD, BOS, EOS, UNK = range(4)
MAX_LEN, BATCH = 56, 12


def clean(text):
    text = unicodedata.normalize("NFKC", text).lower()
    return re.sub(r"\s+", " ", text).strip()


def mask_digits(text):
    return re.sub(r"\d+", "#", text)


def all_phrases():
    return (DATA / "phrases.txt").read_text(encoding="utf-8").splitlines()


def phrases(split):
    """Every seventh phrase is for validation."""
    return [p for i, p in enumerate(all_phrases()) if (i % 7 == 6) == (split != "train")]


class Alphabet:
    def __init__(self, min_count=3):
        counts = Counter(c for p in phrases("train") for c in mask_digits(clean(p)))
        self.chars = sorted(c for c, n in counts.items() if n >= min_count)
        self.index = {c: i + 4 for i, c in enumerate(self.chars)}

    def __len__(self):
        return len(self.chars) + 4

    def encode(self, text):
        return np.array([BOS] + [self.index.get(c, UNK) for c in text], dtype=np.int64)

    def decode(self, ids):
        return "".join(self.chars[i - 4] if i > UNK else "?" if i == UNK else "" for i in ids)


ALPHABET = Alphabet()


def close(ids):
    """Cuts a long phrase, and ends one that was not cut."""
    return ids[:MAX_LEN] if len(ids) >= MAX_LEN else np.append(ids, EOS)


PIPELINE = [clean, mask_digits, ALPHABET.encode, close]


class PhraseSet(Dataset):
    def __init__(self, split):
        self.texts = phrases(split)
        self.transforms = PIPELINE

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, i):
        x = self.texts[i]
        for t in self.transforms:
            x = t(x)
        return x


class BucketBatches:
    """Shuffled, sorted by length within pools of a few batches, batches shuffled again."""

    def __init__(self, lengths, batch_size, pool=4, seed=21):
        self.lengths, self.batch_size, self.pool, self.seed = np.asarray(lengths), batch_size, pool, seed
        self.epoch = 0

    def __len__(self):
        return -(-len(self.lengths) // self.batch_size)

    def __iter__(self):
        rng = np.random.RandomState(self.seed * 1000 + self.epoch)
        order = rng.permutation(len(self.lengths))
        size = self.pool * self.batch_size
        batches = []
        for start in range(0, len(order), size):
            pool = order[start:start + size]
            pool = pool[np.argsort(self.lengths[pool], kind="stable")]
            batches += [pool[i:i + self.batch_size].tolist() for i in range(0, len(pool), self.batch_size)]
        return iter([batches[i] for i in rng.permutation(len(batches))])


def collate(items):
    """Inputs without the last token, targets without the first, both filled with PAD."""
    longest = max(map(len, items)) - 1
    x = torch.full((len(items), longest), PAD)
    y = torch.full((len(items), longest), PAD)
    for row, ids in enumerate(items):
        x[row, :len(ids) - 1] = torch.from_numpy(ids[:-1])
        y[row, :len(ids) - 1] = torch.from_numpy(ids[1:])
    return x, y


def loader(split):
    data = PhraseSet(split)
    if split == "train":
        batches = BucketBatches([len(data[i]) for i in range(len(data))], BATCH)
        return DataLoader(data, batch_sampler=batches, collate_fn=collate)
    return DataLoader(data, batch_size=BATCH, collate_fn=collate)
