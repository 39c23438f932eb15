"""Wing tiles cut out of the contact sheets."""
import json

import numpy as np
import pandas as pd
from paddle.io import BatchSampler, DataLoader, Dataset
from PIL import Image

from settings import DATA, DATASET, POINTS, SIZE

STATS = json.loads((DATA / "stats.json").read_text())


def contrast(tile):
    lo, hi = (np.percentile(tile, q) for q in DATASET["percentiles"])
    return np.clip((tile - lo) / max(hi - lo, 1e-3), 0.0, 1.0)


def whiten(tile):
    return ((tile - STATS["mean"]) / STATS["std"]).astype("float32")


def moved(tile, dx, dy, reach):
    """The tile moved by (dx, dy) pixels, its edge repeated."""
    rows = np.clip(np.arange(SIZE) - dy, 0, SIZE - 1)
    cols = np.clip(np.arange(SIZE) - dx, 0, SIZE - 1)
    assert max(abs(dx), abs(dy)) <= reach
    return tile[np.ix_(rows, cols)]


class Wings(Dataset):
    def __init__(self, split):
        super().__init__()
        table = pd.read_csv(DATA / "marks.csv")
        table = table[table["split"] == split].reset_index(drop=True)
        self.train = split == "train"
        sheet = np.asarray(Image.open(DATA / (split + ".png")))
        high, wide = sheet.shape[0] // SIZE, sheet.shape[1] // SIZE
        tiles = sheet.reshape(high, SIZE, wide, SIZE).transpose(0, 2, 1, 3) / 255.0
        self.tiles = tiles[table["row"].to_numpy(), table["col"].to_numpy()]
        k = range(len(POINTS))
        x = table[["x%d" % i for i in k]].to_numpy()
        y = table[["y%d" % i for i in k]].to_numpy()
        self.marks = np.stack([x, y], axis=-1)
        self.left = (table["side"] == "L").to_numpy()
        self.span = table["span"].to_numpy()

    def __len__(self):
        return len(self.tiles)

    def __getitem__(self, index):
        tile, marks = self.tiles[index], self.marks[index].copy()
        if self.left[index]:
            tile = np.fliplr(tile)
            marks[:, 0] = (SIZE - 1) - marks[:, 0]
        tile = contrast(tile)
        if self.train:
            rng = np.random.default_rng([77, index])
            tile = np.power(tile, np.exp(rng.uniform(-DATASET["gamma"], DATASET["gamma"])))
            reach = DATASET["shift"]
            dx, dy = rng.integers(-reach, reach + 1, size=2)
            tile = moved(tile, dx, dy, reach)
            marks += [dx, dy]
        marks = (marks + 0.5) / SIZE
        with np.errstate(invalid="ignore"):
            seen = np.logical_and(marks > 0, marks < 1).all(axis=1)
        labels = {
            "xy": np.where(seen[:, None], marks, 0.0).astype("float32"),
            "vis": seen.astype("float32"),
            "span": np.float32(self.span[index] / SIZE),
        }
        return whiten(tile)[np.newaxis], labels


class Rounds(BatchSampler):
    def __init__(self, n, batch):
        self.n, self.batch_size, self.drop_last = n, batch, True
        self.turn = 0

    def __len__(self):
        return self.n // self.batch_size

    def __iter__(self):
        order = np.random.RandomState(400 + self.turn).permutation(self.n)
        self.turn += 1
        for i in range(len(self)):
            yield order[i * self.batch_size:(i + 1) * self.batch_size].tolist()


def loader(split):
    data = Wings(split)
    size = DATASET["batch"][split]
    if split == "train":
        return DataLoader(data, batch_sampler=Rounds(len(data), size))
    return DataLoader(data, batch_size=size, shuffle=False, drop_last=False)
