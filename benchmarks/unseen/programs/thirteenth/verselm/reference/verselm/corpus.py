from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from .tokenizer import BOS, EOS, PAD, UNK, Tokenizer

TEXT = Path(__file__).resolve().parents[2] / "text"


def read(split):
    lines = (TEXT / f"{split}.txt").read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip()]


def load_tokenizer(cfg):
    return Tokenizer(read("train"), cfg.data.vocabulary)


def frame(ids):
    return [BOS, *ids, EOS]


def truncate(ids, length):
    """One more than the model sees: the last is only predicted."""
    return np.asarray(ids[: length + 1], dtype=np.int64)


def drop_words(ids, p):
    hit = np.random.rand(len(ids)) < p
    hit &= ids > UNK
    return np.where(hit, UNK, ids)


def build_transforms(cfg, tokenizer, split):
    steps = [tokenizer.encode, frame, partial(truncate, length=cfg.data.max_len)]
    if split == "train":
        steps.append(partial(drop_words, p=cfg.data.word_dropout))
    return steps


class Lines(Dataset):
    def __init__(self, cfg, split):
        self.lines = read(split)
        self.transforms = build_transforms(cfg, load_tokenizer(cfg), split)

    def __len__(self):
        return len(self.lines)

    def __getitem__(self, i):
        x = self.lines[i]
        for t in self.transforms:
            x = t(x)
        return x


def collate(samples):
    length = max(len(s) for s in samples)
    ids = torch.full((len(samples), length), PAD, dtype=torch.long)
    for row, s in zip(ids, samples):
        row[: len(s)] = torch.from_numpy(s)
    return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()


def build_loader(cfg, split):
    train = split == "train"
    return DataLoader(Lines(cfg, split), cfg.data.batch_size, shuffle=train, drop_last=train, collate_fn=collate)
