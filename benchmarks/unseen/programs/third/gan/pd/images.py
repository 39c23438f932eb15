import numpy as np
from paddle.io import Dataset

from .config import CFG


def block_mean(x):
    return 0.25 * (x[0::2, 0::2] + x[1::2, 0::2] + x[0::2, 1::2] + x[1::2, 1::2])


def to_range(x, low=-1.0, high=1.0):
    return low + x / 255.0 * (high - low)


class GlyphImages(Dataset):
    def __init__(self, split):
        super().__init__()
        f = np.load("glyphs.npz")
        a, b = CFG.train_share
        cut = len(f["labels"]) * a // b
        self.first = 0 if split == "train" else cut
        part = slice(0, cut) if split == "train" else slice(cut, None)
        self.images = f["images"][part]
        self.labels = f["labels"][part]

    def __len__(self):
        return len(self.images)

    def __getitem__(self, k):
        i = self.first + k
        noise = np.random.RandomState(1000 + i).standard_normal(CFG.net.noise).astype("float32")
        wanted = (5 * i + 1) % CFG.net.classes
        image = to_range(block_mean(self.images[k].astype("float64")))
        return noise, wanted, image[np.newaxis].astype("float32"), int(self.labels[k])
