import random

import numpy as np
from paddle.io import DataLoader, Dataset

HEIGHT, WIDTH = 52, 46


def synthesize(seed):
    rng = np.random.RandomState(seed)
    rows = np.arange(HEIGHT, dtype="float32")[:, None]
    cols = np.arange(WIDTH, dtype="float32")[None, :]
    picture = rng.randint(60, 120, size=(HEIGHT, WIDTH, 3)).astype("float32")
    mask = np.zeros((HEIGHT, WIDTH), dtype=bool)
    for _ in range(rng.randint(2, 5)):
        cy = rng.uniform(8, HEIGHT - 8)
        cx = rng.uniform(8, WIDTH - 8)
        ry = rng.uniform(4, 11)
        rx = rng.uniform(4, 9)
        blob = ((rows - cy) / ry) ** 2 + ((cols - cx) / rx) ** 2 <= 1
        mask |= blob
        picture[blob] += rng.uniform(30, 110, size=3).astype("float32")
    return np.clip(picture, 0, 255).astype("uint8"), mask


class Cells(Dataset):
    def __init__(self, opts, split):
        super().__init__()
        self.opts = opts
        self.split = split
        levels = np.arange(256) / 255.0
        self.lut = np.round(levels**opts.gamma * 255).astype("uint8")
        self.mean = np.asarray(opts.mean, dtype="float32")
        self.std = np.asarray(opts.std, dtype="float32")

    def __len__(self):
        return self.opts.sizes[self.split]

    def crop(self, array):
        height, width = self.opts.crop
        y, x = (HEIGHT - height) // 2, (WIDTH - width) // 2
        return array[y : y + height, x : x + width]

    def __getitem__(self, index):
        picture, mask = synthesize(self.opts.first_seed[self.split] + index)
        picture, mask = self.lut[self.crop(picture)], self.crop(mask)
        if self.split == "train":
            for axis in (1, 0):
                if random.random() < 0.5:
                    picture, mask = np.flip(picture, axis), np.flip(mask, axis)
        picture = (picture.astype("float32") / 255.0 - self.mean) / self.std
        return np.ascontiguousarray(picture.transpose(2, 0, 1)), mask[None].astype("float32")


def reader(opts, split):
    training = split == "train"
    return DataLoader(Cells(opts, split), batch_size=opts.batch, shuffle=training, drop_last=training)
