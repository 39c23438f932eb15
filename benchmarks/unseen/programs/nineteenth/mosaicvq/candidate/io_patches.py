import os

import numpy as np
import pandas as pd
import paddle
from paddle.io import DataLoader, Dataset, Sampler, BatchSampler
from PIL import Image

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data")
SIDE = 28
WINDOW = 24
BASE_SEED = 2024


def generator(index, stream):
    return np.random.RandomState(BASE_SEED + stream + 31 * index)


class Window:
    def __init__(self, random):
        self.random = random

    def __call__(self, s):
        slack = SIDE - WINDOW
        top, left = generator(s["id"], 1).randint(0, slack + 1, size=2) if self.random else (slack // 2, slack // 2)
        s = dict(s)
        s["pixels"] = s["pixels"][top : top + WINDOW, left : left + WINDOW]
        return s


def mirror(s):
    if generator(s["id"], 2).rand() >= 0.5:
        return s
    return dict(s, pixels=np.flip(s["pixels"], axis=1))


def scale(s):
    chw = np.transpose(s["pixels"], (2, 0, 1)).astype("float32")
    return dict(s, pixels=paddle.to_tensor(chw / np.float32(127.5) - 1))


class Blank:
    def __init__(self, patch=4, rate=0.15):
        self.patch, self.rate = patch, rate

    def __call__(self, s):
        clean = s["pixels"]
        cells = WINDOW // self.patch
        gone = generator(s["id"], 3).rand(cells, cells) < self.rate
        gone = paddle.to_tensor(np.kron(gone, np.ones((self.patch, self.patch))) > 0)
        colour = clean.astype("float64").mean(axis=[1, 2], keepdim=True).astype(clean.dtype)
        return dict(s, image=paddle.where(gone.unsqueeze(0).expand_as(clean), colour.expand_as(clean), clean))


def augmentations(split):
    if split == "train":
        return [Window(True), mirror, scale, Blank()]
    return [Window(False), scale, Blank()]


class Mosaic(Dataset):
    def __init__(self, split):
        super().__init__()
        table = pd.read_csv(os.path.join(FOLDER, "index.csv"))
        table = table[table["split"] == split]
        picture = np.array(Image.open(os.path.join(FOLDER, "sheet.png")).convert("RGB"))
        rows, columns = picture.shape[0] // SIDE, picture.shape[1] // SIDE
        grid = picture.reshape(rows, SIDE, columns, SIDE, 3).swapaxes(1, 2)
        self.tiles = grid[table["row"].to_numpy(), table["col"].to_numpy()]
        self.transforms = augmentations(split)

    def __len__(self):
        return self.tiles.shape[0]

    def __getitem__(self, k):
        s = {"id": k, "pixels": self.tiles[k]}
        for fn in self.transforms:
            s = fn(s)
        return {"image": s["image"], "labels": s["pixels"]}


class Permuted(Sampler):
    epoch = 0

    def __iter__(self):
        draw = np.random.RandomState(BASE_SEED + self.epoch)
        yield from map(int, draw.permutation(len(self.data_source)))


def loader(split):
    mosaic = Mosaic(split)
    if split != "train":
        return DataLoader(mosaic, batch_size=6, shuffle=False)
    return DataLoader(mosaic, batch_sampler=BatchSampler(sampler=Permuted(mosaic), batch_size=8, drop_last=True))
