import re
from collections import defaultdict
from pathlib import Path

import numpy as np
from paddle.io import DataLoader, Dataset

from .settings import SETTINGS

FOLDER = Path(__file__).resolve().parents[2] / "text"
PAD, BOS, EOS, UNK = 0, 1, 2, 3


def load_lines(path):
    with open(path, encoding="utf-8") as f:
        return [s for s in (line.strip() for line in f) if s]


def split_words(line):
    return re.findall(r"[a-z]+(?:'[a-z]+)?|[.,;:!?]", line.lower())


def make_vocabulary(lines, size):
    counts = defaultdict(int)
    for line in lines:
        for word in split_words(line):
            counts[word] += 1
    by_count = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    table = {"<pad>": PAD, "<bos>": BOS, "<eos>": EOS, "<unk>": UNK}
    for word, _ in by_count[: size - len(table)]:
        table[word] = len(table)
    return table


VOCABULARY = make_vocabulary(load_lines(FOLDER / "train.txt"), SETTINGS.data.vocabulary)
WORDS = list(VOCABULARY)


def encode(line):
    return [VOCABULARY.get(word, UNK) for word in split_words(line)]


class Frame:
    def __call__(self, ids):
        return [BOS] + list(ids) + [EOS]


class Truncate:
    def __init__(self, max_len):
        self.most = max_len + 1

    def __call__(self, ids):
        return np.array(ids[: self.most], "int64")


class WordDropout:
    def __init__(self, p):
        self.p = p

    def __call__(self, ids):
        draw = np.random.rand(len(ids))
        out = ids.copy()
        out[(draw < self.p) & (ids > UNK)] = UNK
        return out


def make_transforms(split):
    steps = [encode, Frame(), Truncate(SETTINGS.data.max_len)]
    if split == "train":
        steps += [WordDropout(SETTINGS.data.word_dropout)]
    return steps


class VerseSet(Dataset):
    def __init__(self, split):
        super().__init__()
        self.lines = load_lines(FOLDER / (split + ".txt"))
        self.transforms = make_transforms(split)

    def __getitem__(self, i):
        value = self.lines[i]
        for step in self.transforms:
            value = step(value)
        return value

    def __len__(self):
        return len(self.lines)


def pad_batch(samples):
    longest = max(map(len, samples))
    ids = np.stack([np.pad(s, (0, longest - len(s)), constant_values=PAD) for s in samples])
    return ids[:, :-1].copy(), ids[:, 1:].copy()


def make_loader(split):
    training = split == "train"
    return DataLoader(
        VerseSet(split), batch_size=SETTINGS.data.batch_size, shuffle=training, drop_last=training, collate_fn=pad_batch
    )
