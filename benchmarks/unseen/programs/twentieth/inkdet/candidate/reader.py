import json
import os

import numpy as np
from paddle.io import BatchSampler, DataLoader, Dataset
from PIL import Image

BASE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data")
CFG = {"mean": 0.72, "std": 0.21, "max_boxes": 6, "batch": 4, "order_seed": 4, "size": 96}


def gray(path):
    with Image.open(path) as im:
        return im.convert("L")


def to_ink(a):
    return (CFG["mean"] - np.asarray(a, "float32") / np.float32(255)) / CFG["std"]


def jitter(a, number):
    r = np.random.RandomState(1000 + number)
    gain = r.uniform(0.8, 1.2)
    shift = r.uniform(-15, 15)
    centre = a.mean()
    return np.clip(centre + gain * (a - centre) + shift, 0, 255)


class PageSet(Dataset):
    def __init__(self, split):
        super().__init__()
        with open(os.path.join(BASE, split + ".json")) as f:
            self.entries = json.load(f)
        self.augment = split == "train"

    def __len__(self):
        return len(self.entries)

    def boxes(self, entry):
        table = np.full([CFG["max_boxes"], 5], -1.0, "float32")
        for row, mark in zip(table, entry["boxes"]):
            x, y, w, h = mark["bbox"]
            row[:] = x, y, x + w, y + h, mark["digit"]
        return table

    def __getitem__(self, i):
        entry = self.entries[i]
        page = np.asarray(gray(os.path.join(BASE, "pages", entry["file"])))
        if self.augment:
            page = jitter(page, i)
        return to_ink(page).astype("float32")[np.newaxis], self.boxes(entry)


class FixedOrder(BatchSampler):
    def __init__(self, n, batch):
        self.n, self.batch = n, batch

    def __len__(self):
        return self.n // self.batch

    def __iter__(self):
        order = np.random.RandomState(CFG["order_seed"]).permutation(self.n).tolist()
        return iter([order[i * self.batch:(i + 1) * self.batch] for i in range(len(self))])


def page_loader(split):
    data = PageSet(split)
    if data.augment:
        return DataLoader(data, batch_sampler=FixedOrder(len(data), CFG["batch"]))
    return DataLoader(data, batch_size=CFG["batch"], shuffle=False, drop_last=False)


def fit_page(path):
    """Page as network input, its scale, its true width and height."""
    im = gray(path)
    width, height = im.size
    ratio = CFG["size"] / max(width, height)
    small = im.resize((int(round(width * ratio)), int(round(height * ratio))), resample=Image.BILINEAR)
    ink = to_ink(small).astype("float32")
    below, right = CFG["size"] - ink.shape[0], CFG["size"] - ink.shape[1]
    return np.pad(ink, ((0, below), (0, right)))[None, None], ratio, width, height
