from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

ROOT = Path(__file__).resolve().parent.parent / "data"
MEAN, STD = 0.305, 0.376


def scale(images):
    return (images.astype("float32") / 16.0 - MEAN) / STD


class TwoViews(Dataset):
    """weak view: at most a pixel of shift; strong view: shift, noise and an erased patch."""

    def __init__(self, split):
        self.split = split
        self.images = np.load(ROOT / f"{split}_images.npy")
        self.labels = np.load(ROOT / f"{split}_labels.npy").astype("int64")

    def __len__(self):
        return len(self.labels)

    def _shift(self, img, rng, reach):
        dy, dx = rng.randint(-reach, reach + 1, size=2)
        pad = np.pad(img, reach, mode="edge")
        return pad[reach + dy: reach + dy + 8, reach + dx: reach + dx + 8]

    def __getitem__(self, i):
        img = scale(self.images[i])
        weak = strong = img
        if self.split == "train":
            rng = np.random.RandomState(7919 + i)
            weak = self._shift(img, rng, 1)
            strong = self._shift(img, rng, 2).copy()
            strong += rng.normal(0.0, 0.15, size=strong.shape).astype("float32")
            r, c = rng.randint(0, 6, size=2)
            strong[r:r + 3, c:c + 3] = strong.mean()
        weak = torch.from_numpy(np.ascontiguousarray(weak)[None])
        strong = torch.from_numpy(np.ascontiguousarray(strong)[None])
        return weak, strong, torch.tensor(self.labels[i])


def loader(split):
    train = split == "train"
    return DataLoader(TwoViews(split), batch_size=16, shuffle=train, drop_last=train)
