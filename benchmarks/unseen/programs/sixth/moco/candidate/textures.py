import math

import numpy as np
from paddle.io import DataLoader, Dataset

SIDE, CROP, HOLE = 22, 16, 4


def stripes(label, rng):
    angle = math.pi * label / 6 + rng.normal(0, 0.05)
    phase = rng.uniform(0, 6)
    length = (4.0, 5.5, 7.0)[label % 3]
    axis = np.arange(SIDE)
    way = axis[None, :] * math.cos(angle) + axis[:, None] * math.sin(angle)
    return np.uint8(np.round(255 * (0.5 + 0.4 * np.sin(2 * math.pi * way / length + phase))))


def augment(picture, rng):
    y, x = rng.randint(0, SIDE - CROP + 1, size=2)
    patch = np.float32(picture[y : y + CROP, x : x + CROP]) / 255
    if rng.rand() < 0.5:
        patch = np.fliplr(patch)
    average = patch.mean()
    patch = average + (patch - average) * rng.uniform(0.6, 1.4)
    patch = patch + rng.normal(0, 0.03, patch.shape)
    y, x = rng.randint(0, CROP - HOLE, size=2)
    patch[y : y + HOLE, x : x + HOLE] = 0.5
    return ((np.clip(patch, 0, 1) - 0.5) / 0.25).astype("float32")[np.newaxis]


class Textures(Dataset):
    def __init__(self, part):
        super().__init__()
        self.first, self.count = {"train": (1000, 48), "val": (5000, 24)}[part]

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        rng = np.random.RandomState(self.first + i)
        label = (5 * i + i // 6) % 6
        picture = stripes(label, rng)
        return augment(picture, rng), augment(picture, rng), label


def batches(part, size=8):
    return DataLoader(Textures(part), batch_size=size, shuffle=part == "train", drop_last=True)
