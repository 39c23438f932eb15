"""Words to numbers, and the pairs of sentences as a data set."""
import csv
import random
import re
import zlib
from collections import Counter

import torch
from torch.utils.data import Dataset, Sampler

PAD, NULL, NUMBER, FIRST_BUCKET = 0, 1, 2, 3
LABELS = ["entails", "open", "denies"]


class Vocabulary:
    def __init__(self, cfg, sentences):
        self.cfg = cfg
        self.regex = re.compile(cfg["pattern"])
        counts = Counter(w for s in sentences for w in self.words(s) if not w.isdigit())
        kept = sorted((w for w, c in counts.items() if c >= cfg["min_count"]), key=lambda w: (-counts[w], w))
        offset = FIRST_BUCKET + cfg["buckets"]
        self.index = {w: offset + i for i, w in enumerate(kept)}
        self.size = offset + len(kept)

    def words(self, sentence):
        return self.regex.findall(sentence.lower())

    def number(self, word):
        if word.isdigit():
            return NUMBER
        if word in self.index:
            return self.index[word]
        return FIRST_BUCKET + zlib.crc32(word.encode()) % self.cfg["buckets"]

    def encode(self, sentence):
        ids = [NULL] + [self.number(w) for w in self.words(sentence)]
        ids = ids[: self.cfg["max_len"]]
        return ids + [PAD] * (self.cfg["max_len"] - len(ids))

    def surface(self, premise, hypothesis):
        """Share of the hypothesis found in the premise, relative length, difference of negations, of numbers."""
        p, h = self.words(premise), self.words(hypothesis)
        shared = sum(w in p for w in h) / len(h)
        denied = [sum(w in self.cfg["negations"] for w in side) for side in (p, h)]
        digits = [{w for w in side if w.isdigit()} for side in (p, h)]
        return [shared, len(h) / len(p), float(denied[1] - denied[0]), float(len(digits[1] - digits[0]))]

    def pair(self, premise, hypothesis):
        return (
            torch.tensor(self.encode(premise)),
            torch.tensor(self.encode(hypothesis)),
            torch.tensor(self.surface(premise, hypothesis), dtype=torch.float32),
        )


def read_rows(path):
    with open(path, newline="") as f:
        return list(csv.DictReader(f))


class Pairs(Dataset):
    def __init__(self, rows, vocabulary):
        self.rows, self.vocabulary = rows, vocabulary

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row = self.rows[i]
        votes = torch.tensor([float(row[name]) for name in LABELS])
        return (*self.vocabulary.pair(row["premise"], row["hypothesis"]),
                {"share": votes / votes.sum(), "voters": votes.sum()})

    def lengths(self):
        return [len(self.vocabulary.words(r["premise"])) + len(self.vocabulary.words(r["hypothesis"]))
                for r in self.rows]


class ByLength(Sampler):
    """Neighbours in length share a batch; the batches come in an order drawn anew for each epoch."""

    def __init__(self, lengths, size, seed):
        order = sorted(range(len(lengths)), key=lambda i: lengths[i])
        self.batches = [order[i:i + size] for i in range(0, len(order), size)]
        self.seed, self.epoch = seed, 0

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        batches = list(self.batches)
        random.Random(self.seed + self.epoch).shuffle(batches)
        self.epoch += 1
        return iter(batches)
