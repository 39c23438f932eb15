import json

import numpy as np
import torch
from torch.utils.data import Dataset

PAD, UNK, MASK, SKIP, LENGTH = 0, 1, 2, -100, 10


def vocabulary():
    with open("data/vocab.json") as handle:
        return json.load(handle)


def read(path, words):
    index = {w: i for i, w in enumerate(words)}
    with open(path) as handle:
        return [[index.get(w, UNK) for w in line.split()][:LENGTH] for line in handle if line.strip()]


class MaskedLog(Dataset):
    """15 % of a line's words, at least one, are to be guessed: 80 % of them become the mask,
    10 % another word, 10 % stay. The draw depends on the line's number alone."""

    def __init__(self, path):
        self.words = vocabulary()
        self.lines = read(path, self.words)

    def __len__(self):
        return len(self.lines)

    def __getitem__(self, i):
        rng = np.random.default_rng(4000 + i)
        line = self.lines[i]
        tokens, target = np.full(LENGTH, PAD), np.full(LENGTH, SKIP)
        tokens[: len(line)] = line
        count = max(1, round(0.15 * len(line)))
        for place in rng.permutation(len(line))[:count]:
            target[place] = tokens[place]
            draw = rng.random()
            if draw < 0.8:
                tokens[place] = MASK
            elif draw < 0.9:
                tokens[place] = rng.integers(3, len(self.words))
        return {"tokens": torch.from_numpy(tokens), "labels": torch.from_numpy(target)}
