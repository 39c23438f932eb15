import numpy as np
import torch
from torch.utils.data import Dataset

from . import features as fe


def subsampled(n):
    """Frames that two convolutions of width 3 and stride 2 leave."""
    return ((n - 1) // 2 - 1) // 2


class Utterances(Dataset):
    sizes = {"train": (1000, 22), "val": (9000, 10)}

    def __init__(self, settings, split):
        self.settings, self.split = settings, split
        first, count = self.sizes[split]
        self.signals = [fe.utterance(first + i, settings.features.rate) for i in range(count)]

    def __len__(self):
        return len(self.signals)

    def frames(self, i):
        c = self.settings.features
        return 1 + (len(self.signals[i][0]) - c.window) // c.hop

    def __getitem__(self, i):
        c = self.settings.features
        signal, classes = self.signals[i]
        x = fe.standardise(fe.log_mel(signal, c))
        y = fe.frame_classes(classes, c, len(x))
        if self.split == "train":
            x = fe.mask_features(x, self.settings.masking)
        y = y[3::4][: subsampled(len(x))]
        return x.astype("float32"), y


class Collate:
    """Longest first, zeros behind, `ignore` behind the labels."""

    def __init__(self, ignore):
        self.ignore = ignore

    def __call__(self, samples):
        samples = sorted(samples, key=lambda s: -len(s[0]))
        longest = len(samples[0][0])
        feats = torch.zeros(len(samples), longest, samples[0][0].shape[1])
        labels = torch.full((len(samples), subsampled(longest)), self.ignore, dtype=torch.int64)
        for row, (x, y) in enumerate(samples):
            feats[row, : len(x)] = torch.from_numpy(x)
            labels[row, : len(y)] = torch.from_numpy(y)
        lengths = torch.tensor([len(x) for x, _ in samples], dtype=torch.int64)
        return {"feats": feats, "lengths": lengths, "labels": labels}


class Buckets:
    """Batches of like lengths, in another order in each epoch."""

    def __init__(self, data, size, seed, shuffle):
        order = sorted(range(len(data)), key=data.frames)
        self.batches = [order[i : i + size] for i in range(0, len(order), size)]
        self.seed, self.shuffle, self.epoch = seed, shuffle, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        order = np.arange(len(self.batches))
        if self.shuffle:
            np.random.RandomState(self.seed + self.epoch).shuffle(order)
        return iter([self.batches[i] for i in order])
