import math

import numpy as np
import paddle
from paddle.io import Dataset


def sample_farthest(n):
    def apply(xyz):
        order = np.zeros(n, dtype=np.int64)
        best = np.full(len(xyz), np.inf)
        for j in range(1, n):
            best = np.minimum(best, np.sum((xyz - xyz[order[j - 1]]) ** 2, axis=1))
            order[j] = np.argmax(best)
        return xyz[order]
    return apply


def unit_sphere(xyz):
    centred = xyz - xyz.mean(0)
    return centred / np.linalg.norm(centred, axis=1).max()


def rotate(degrees):
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))

    def apply(xyz):
        x, y, z = xyz.T
        return np.stack([c * x - s * y, s * x + c * y, z], axis=1)
    return apply


def to_tensor(xyz):
    return paddle.to_tensor(xyz.astype("float32"))


def pipeline(split, cfg):
    turn = [rotate(cfg["train_rotation"])] if split == "train" else []
    return [sample_farthest(cfg["points"]), unit_sphere, *turn, to_tensor]


class ScanSet(Dataset):
    FOLDS = {"train": 0, "val": 1}

    def __init__(self, split, cfg, path="clouds.npz"):
        super().__init__()
        archive = np.load(path)
        rows = np.flatnonzero(archive["fold"] == self.FOLDS[split])
        self.clouds = archive["xyz"][rows].astype("float64")
        self.labels = archive["y"][rows]
        self.transforms = pipeline(split, cfg)

    def __getitem__(self, i):
        cloud = self.clouds[i]
        for step in self.transforms:
            cloud = step(cloud)
        return cloud, self.labels[i]

    def __len__(self):
        return self.labels.shape[0]
