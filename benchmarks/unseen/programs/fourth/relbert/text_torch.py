"""Vocabulary, masked sentences, batches."""
from collections import Counter

import numpy as np
import torch
from torch.utils.data import Dataset

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PAD, IGNORE = 0, -100
LENGTH = 22


class Vocabulary:
    def __init__(self, path, least=2):
        count = Counter(open(path).read().split())
        self.words = SPECIAL + sorted(w for w, c in count.items() if c >= least)
        self.index = {w: i for i, w in enumerate(self.words)}

    def __len__(self):
        return len(self.words)

    def __getitem__(self, word):
        return self.index.get(word, SPECIAL.index("[UNK]"))


def encode(words, vocab):
    """[CLS] sentence [SEP]; what comes after the first "and" is segment 1"""
    words = words[:LENGTH - 2]
    cut = words.index("and") if "and" in words else len(words)
    ids = [vocab.index["[CLS]"]] + [vocab[w] for w in words] + [vocab.index["[SEP]"]]
    types = [0] * (cut + 1) + [1] * (len(words) - cut + 1)
    return ids, types


class MaskedPairs(Dataset):
    """BERT's corruption with numbers that depend on the sentence only: 20 % of the words, of these 80/10/10."""

    def __init__(self, path, vocab, split):
        lines = [l.split() for l in open(path)]
        n = int(0.7 * len(lines))
        self.lines = lines[:n] if split == "train" else lines[n:]
        self.offset = 0 if split == "train" else n
        self.vocab = vocab

    def __len__(self):
        return len(self.lines)

    def __getitem__(self, i):
        ids, types = encode(self.lines[i], self.vocab)
        rng = np.random.RandomState(9000 + self.offset + i)
        u, kind, other = rng.rand(len(ids)), rng.rand(len(ids)), rng.randint(len(SPECIAL), len(self.vocab), len(ids))
        labels = [IGNORE] * len(ids)
        corrupted = list(ids)
        for t in range(1, len(ids) - 1):
            if u[t] < 0.2 or (t == 3 and (u[1:-1] >= 0.2).all()):
                labels[t] = ids[t]
                if kind[t] < 0.8:
                    corrupted[t] = self.vocab.index["[MASK]"]
                elif kind[t] < 0.9:
                    corrupted[t] = int(other[t])
        return {"input_ids": torch.tensor(corrupted), "token_type_ids": torch.tensor(types), "labels": torch.tensor(labels)}


def collate(samples):
    fill = {"input_ids": PAD, "token_type_ids": 0, "labels": IGNORE}
    return {k: torch.nn.utils.rnn.pad_sequence([s[k] for s in samples], batch_first=True, padding_value=v)
            for k, v in fill.items()}
