"""Sentence pairs as padded arrays."""
import binascii
import itertools
import random
import string

import numpy as np
import pandas as pd
from paddle.io import BatchSampler, Dataset

SPECIAL = ("<pad>", "<null>", "<number>")
NAMES = ("entails", "open", "denies")
LETTERS = set(string.ascii_lowercase + "'")


def kind_of(ch):
    return "w" if ch in LETTERS else "d" if ch in string.digits else None


def split_words(sentence):
    runs = itertools.groupby(sentence.lower(), key=kind_of)
    return ["".join(chars) for kind, chars in runs if kind is not None]


def read_table(path):
    return pd.read_csv(path, keep_default_na=False)


def fit_lexicon(table, settings):
    """word -> id, the frequent first and equally frequent ones in alphabetical order."""
    train = table[table["split"] == "train"]
    words = pd.Series([w for col in ("premise", "hypothesis") for s in train[col] for w in split_words(s)])
    counts = words[~words.str.isdigit()].value_counts()
    counts = counts[counts >= settings["keep_from"]]
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    base = len(SPECIAL) + settings["hash_slots"]
    return {word: base + rank for rank, (word, _) in enumerate(ranked)}


class Reader:
    def __init__(self, table, settings):
        self.settings = settings
        self.lexicon = fit_lexicon(table, settings)
        self.size = len(SPECIAL) + settings["hash_slots"] + len(self.lexicon)

    def lookup(self, word):
        if word[0] in string.digits:
            return SPECIAL.index("<number>")
        slot = binascii.crc32(word.encode("utf-8")) % self.settings["hash_slots"]
        return self.lexicon.get(word, len(SPECIAL) + slot)

    def ids(self, words):
        width = self.settings["width"]
        row = np.zeros(width, dtype="int64")
        row[0] = SPECIAL.index("<null>")
        for place, word in enumerate(words[:width - 1], start=1):
            row[place] = self.lookup(word)
        return row

    def clues(self, p, h):
        known = set(p)
        deny = self.settings["deny"]
        numbers = {w for w in h if w.isdigit()} - known
        return np.array([
            np.mean([w in known for w in h]),
            len(h) / len(p),
            sum(map(h.count, deny)) - sum(map(p.count, deny)),
            len(numbers),
        ], dtype="float32")

    def __call__(self, premise, hypothesis):
        p, h = split_words(premise), split_words(hypothesis)
        return self.ids(p), self.ids(h), self.clues(p, h)


class PairSet(Dataset):
    def __init__(self, table, split, reader):
        super().__init__()
        part = table[table["split"] == split]
        self.texts = list(zip(part["premise"], part["hypothesis"]))
        self.votes = part[list(NAMES)].to_numpy(dtype="float32")
        self.reader = reader

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, i):
        total = self.votes[i].sum()
        return (*self.reader(*self.texts[i]), {"share": self.votes[i] / total, "voters": total})


class LengthBatches(BatchSampler):
    def __init__(self, pairs, size, seed):
        super().__init__(dataset=pairs, batch_size=size)
        length = np.array([sum(len(split_words(s)) for s in text) for text in pairs.texts])
        order = np.argsort(length, kind="stable")
        self.groups = [order[k:k + size].tolist() for k in range(0, len(order), size)]
        self.seed = seed
        self.turn = -1

    def __iter__(self):
        self.turn += 1
        groups = self.groups[:]
        random.Random(self.seed + self.turn).shuffle(groups)
        yield from groups

    def __len__(self):
        return len(self.groups)
