"""Files of the gauge reader: contact sheets of 32 x 32 tiles and their tables."""
import csv
import functools
import math
import os

import numpy as np
import paddle
from PIL import Image

FOLDER = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "data"))
GAUGES = ["bar", "degC", "volt"]
SIDE = 32


def load_grey(path):
    return np.array(Image.open(path)).astype("float32") / 255.0


@functools.lru_cache(maxsize=None)
def statistics():
    sheet = load_grey(os.path.join(FOLDER, "sheet_train.png"))
    return float(sheet.mean()), float(sheet.astype("float64").std())


def standardise(img):
    mean, std = statistics()
    return (img - mean) / std


class GaugeTiles(paddle.io.Dataset):
    def __init__(self, split):
        super().__init__()
        self.augment = split == "train"
        sheet = load_grey(os.path.join(FOLDER, "sheet_%s.png" % split))
        rows, cols = sheet.shape[0] // SIDE, sheet.shape[1] // SIDE
        self.tiles = sheet.reshape(rows, SIDE, cols, SIDE).swapaxes(1, 2).reshape(-1, SIDE, SIDE)
        with open(os.path.join(FOLDER, "sheet_%s.csv" % split)) as f:
            table = list(csv.reader(f))[1:]
        if self.augment:
            table = [r for r in table if r[4] != "0"]
        self.number = [int(r[0]) for r in table]
        self.degrees = [float(r[1]) for r in table]
        self.kind = [GAUGES.index(r[2]) for r in table]
        self.span = [float(r[3]) for r in table]

    def __len__(self):
        return len(self.number)

    def __getitem__(self, k):
        number = self.number[k]
        img = standardise(self.tiles[number])
        degrees = self.degrees[k]
        if self.augment:
            dice = np.random.RandomState(number * 7919 + 5)
            quarter = int(dice.randint(4))
            degrees += 90.0 * quarter
            img = np.rot90(img, quarter) * dice.uniform(0.8, 1.2)
        while degrees > 180.0:
            degrees -= 360.0
        labels = {"angle": np.float32(math.radians(degrees)),
                  "kind": np.int64(self.kind[k]),
                  "span": np.float32(self.span[k])}
        return img[None].astype("float32").copy(), labels


class TilePasses(paddle.io.BatchSampler):
    """Lists of tile numbers for one pass; each pass has its own permutation."""

    def __init__(self, n, batch, seed=41):
        self.n, self.batch, self.seed = n, batch, seed
        self.passes = 0

    def __iter__(self):
        order = np.random.RandomState(self.seed + self.passes).permutation(self.n)
        self.passes += 1
        for lo in range(0, self.n, self.batch):
            yield order[lo:lo + self.batch].tolist()

    def __len__(self):
        return math.ceil(self.n / self.batch)
