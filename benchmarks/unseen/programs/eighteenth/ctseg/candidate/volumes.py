"""Patches out of labelled volumes."""
from pathlib import Path

import numpy as np
from paddle.io import DataLoader, Dataset

ARCHIVE = Path(__file__).resolve().parents[1] / "data" / "cases.npz"
PATCH = (8, 32, 32)
HU = (-200.0, 320.0)
BATCH = 2
FOREGROUND = 0.67
SUBSETS = {"train": ([0, 1, 3], 12), "val": ([2, 4], 6)}


def clip_hu(item):
    item["image"] = np.clip(item["image"], *HU)
    return item


def tissue_statistics(image):
    """Mean and sample deviation of voxels that the window does not cut."""
    tissue = image[np.logical_and(image > HU[0], image < HU[1])]
    if len(tissue) < 2:
        tissue = image.ravel()
    return tissue.mean(), max(tissue.std(ddof=1), 1.0)


def standardise(item):
    mean, std = tissue_statistics(item["image"])
    item["image"] = (item["image"] - mean) / std
    return item


def mirror(item):
    rows, columns = item["flips"]
    for key in ("image", "label"):
        if rows:
            item[key] = item[key][:, ::-1]
        if columns:
            item[key] = item[key][:, :, ::-1]
    return item


def bend_contrast(item):
    x = item["image"]
    low = x.min()
    span = x.max() - low + 1e-7
    bent = np.power((x - low) / span, item["gamma"]) * span + low
    item["image"] = bent + (x.mean() - bent.mean())
    return item


def finish(item):
    return {"image": item["image"][np.newaxis].astype("float32"), "label": item["label"].astype("int64")}


def pipeline(subset):
    if subset == "train":
        return [clip_hu, standardise, mirror, bend_contrast, finish]
    return [clip_hu, standardise, finish]


class PatchSet(Dataset):
    def __init__(self, subset):
        super().__init__()
        self.subset = subset
        self.cases, self.count = SUBSETS[subset]
        with np.load(ARCHIVE) as archive:
            self.image, self.label = archive["image"].astype("float64"), archive["label"].astype("int64")
        self.transforms = pipeline(subset)
        self.background_per_batch = round(BATCH * (1 - FOREGROUND))

    def __len__(self):
        return self.count

    def pick_centre(self, label, rng, foreground):
        if not foreground:
            return rng.integers(0, label.shape)
        classes = [c for c in (1, 2) if np.any(label == c)]
        where = np.stack(np.nonzero(label == classes[rng.integers(len(classes))]), axis=1)
        return where[rng.integers(len(where))]

    def __getitem__(self, i):
        rng = np.random.default_rng([71, int(self.subset == "train"), i])
        case = self.cases[i % len(self.cases)]
        label = self.label[case]
        centre = self.pick_centre(label, rng, i % BATCH >= self.background_per_batch)
        corner = np.minimum(np.maximum(centre - np.array(PATCH) // 2, 0), np.array(label.shape) - PATCH)
        region = np.s_[corner[0]:corner[0] + PATCH[0], corner[1]:corner[1] + PATCH[1], corner[2]:corner[2] + PATCH[2]]
        item = {"image": self.image[case][region], "label": label[region]}
        item["flips"] = rng.random(2) < 0.5
        item["gamma"] = rng.uniform(0.7, 1.5)
        for fn in self.transforms:
            item = fn(item)
        return item


def batches(subset):
    return DataLoader(PatchSet(subset), batch_size=BATCH, shuffle=False, drop_last=subset == "train")
