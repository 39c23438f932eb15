import json
import os

import numpy as np
from paddle.io import BatchSampler, DataLoader, Dataset, Sampler
from PIL import Image

from . import cfg


def shrink(sample):
    h, w = sample["label"].shape
    ratio = cfg.CROP / min(h, w)
    size = (int(round(w * ratio)), int(round(h * ratio)))
    image = Image.fromarray(sample["image"]).resize(size, resample=Image.BICUBIC)
    label = Image.fromarray(sample["label"]).resize(size, resample=Image.NEAREST)
    return {**sample, "image": np.array(image), "label": np.array(label)}


def window(sample, y, x):
    return [sample[k][y:y + cfg.CROP, x:x + cfg.CROP] for k in ("image", "label")]


def centre(sample):
    h, w = sample["label"].shape
    image, label = window(sample, (h - cfg.CROP) // 2, (w - cfg.CROP) // 2)
    return {**sample, "image": image, "label": label}


def augment(sample):
    rng = np.random.RandomState(cfg.DATA_SEED + sample["index"])
    h, w = sample["label"].shape
    y = rng.randint(0, h - cfg.CROP + 1)
    x = rng.randint(0, w - cfg.CROP + 1)
    image, label = window(sample, y, x)
    for axis in (1, 0):
        if rng.rand() < 0.5:
            image, label = np.flip(image, axis), np.flip(label, axis)
    return {**sample, "image": np.ascontiguousarray(image), "label": np.ascontiguousarray(label)}


def jitter(sample):
    rng = np.random.RandomState(cfg.DATA_SEED + 7919 + sample["index"])
    power = np.exp(rng.uniform(-cfg.GAMMA_JITTER, cfg.GAMMA_JITTER))
    table = np.round((np.arange(256) / 255.0) ** power * 255.0).astype("uint8")
    return {**sample, "image": table[sample["image"]]}


def standardize(sample):
    image = sample["image"].astype("float32") / 255
    image = (image - np.float32(cfg.MEAN)) / np.float32(cfg.STD)
    return {**sample, "image": np.moveaxis(image, -1, 0).copy()}


def targets(sample):
    label = sample["label"]
    h, w = label.shape
    grid = (h // cfg.STRIDE, w // cfg.STRIDE)
    heat, pos = np.zeros(grid, "float32"), np.zeros(grid, "float32")
    size = np.zeros((2, *grid), "float32")
    valid = np.ones((h, w), "float32")
    gy, gx = np.arange(grid[0])[:, None], np.arange(grid[1])[None]
    for k in range(1, int(label.max()) + 1):
        here = label == k
        area = int(here.sum())
        if area == 0:
            continue
        if area < cfg.MIN_AREA:
            valid[here] = 0
            continue
        rows, cols = np.where(here)
        box = np.array([np.ptp(rows) + 1, np.ptp(cols) + 1])
        cy, cx = [min(int((v.mean() + 0.5) / cfg.STRIDE), n - 1) for v, n in zip((rows, cols), grid)]
        spread = box.max() / cfg.STRIDE / 3
        bump = np.exp(-((gy - cy) ** 2 + (gx - cx) ** 2) / (2 * spread ** 2))
        heat = np.maximum(heat, bump.astype("float32"))
        pos[cy, cx] = 1
        size[:, cy, cx] = np.log(box)
    return sample["image"], {"mask": (label != 0)[None].astype("float32"), "valid": valid[None],
                             "heat": heat[None], "size": size, "pos": pos[None]}


def pipeline(split):
    if split == "train":
        return [augment, jitter, standardize, targets]
    return [shrink, centre, standardize, targets]


class Grains(Dataset):
    def __init__(self, split):
        super().__init__()
        with open(os.path.join(cfg.DATA_DIR, "folds.json")) as f:
            names = json.load(f)[split]
        self.items = names * (cfg.REPEATS if split == "train" else 1)
        self.transforms = pipeline(split)

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        stem = os.path.join(cfg.DATA_DIR, "img", self.items[i])
        sample = {"index": i, "image": np.array(Image.open(stem + ".png").convert("RGB")),
                  "label": np.array(Image.open(stem + "_lab.png"))}
        for step in self.transforms:
            sample = step(sample)
        return sample


class EpochSampler(Sampler):
    def __init__(self, data, seed):
        super().__init__(data)
        self.seed, self.epoch = seed, 0

    def __len__(self):
        return len(self.data_source)

    def __iter__(self):
        order = np.random.RandomState(self.seed + self.epoch).permutation(len(self.data_source))
        return iter(order.tolist())


def loader(split):
    data = Grains(split)
    if split != "train":
        return DataLoader(data, batch_size=cfg.EVAL_BATCH, shuffle=False)
    batches = BatchSampler(sampler=EpochSampler(data, cfg.DATA_SEED), batch_size=cfg.TRAIN_BATCH, drop_last=True)
    return DataLoader(data, batch_sampler=batches)


def read(path):
    image = np.array(Image.open(path).convert("RGB"))
    return standardize({"image": image})["image"]
