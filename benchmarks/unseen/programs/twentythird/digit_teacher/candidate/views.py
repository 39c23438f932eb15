import os

import numpy as np
import paddle
from paddle.io import DataLoader, Dataset

HERE = os.path.dirname(os.path.abspath(__file__))
MEAN, STD = 0.305, 0.376
SIDE = 8


def standardise(images):
    x = images.astype("float32")
    return (x / 16.0 - MEAN) / STD


def shifted(img, rng, reach):
    """Edge-replicating shift by index arithmetic."""
    dy, dx = rng.randint(-reach, reach + 1, size=2)
    rows = np.clip(np.arange(SIDE) + dy, 0, SIDE - 1)
    cols = np.clip(np.arange(SIDE) + dx, 0, SIDE - 1)
    return img[rows][:, cols]


def erase(img, rng, size=3):
    top, left = rng.randint(0, 6, size=2)
    img[top:top + size, left:left + size] = img.mean()
    return img


class Pairs(Dataset):
    def __init__(self, split):
        super().__init__()
        folder = os.path.join(HERE, "..", "data")
        self.augment = split == "train"
        self.x = standardise(np.load(os.path.join(folder, split + "_images.npy")))
        self.y = np.load(os.path.join(folder, split + "_labels.npy")).astype(np.int64)

    def __len__(self):
        return self.x.shape[0]

    def __getitem__(self, i):
        img = self.x[i]
        if not self.augment:
            return img[None], img[None], self.y[i]
        rng = np.random.RandomState(7919 + i)
        weak = shifted(img, rng, 1)
        strong = shifted(img, rng, 2)
        strong = strong + rng.normal(0.0, 0.15, size=strong.shape).astype("float32")
        strong = erase(strong, rng)
        return weak[None], strong[None], self.y[i]


def make_loader(split):
    kw = dict(shuffle=True, drop_last=True) if split == "train" else dict(shuffle=False, drop_last=False)
    return DataLoader(Pairs(split), batch_size=16, **kw)
