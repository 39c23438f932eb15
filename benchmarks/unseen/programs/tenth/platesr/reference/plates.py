"""Pairs of degraded and clean patches. Labels: three channels of the clean patch and a mask of pixels that count."""
import csv
import pathlib

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from .options import OPT

DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
TAPS = np.array([1.0, 4.0, 6.0, 4.0, 1.0]) / 16.0


def blur(img):
    h, w = img.shape[:2]
    p = np.pad(img, ((2, 2), (2, 2), (0, 0)), mode="reflect")
    p = sum(t * p[i:i + h] for i, t in enumerate(TAPS))
    return sum(t * p[:, i:i + w] for i, t in enumerate(TAPS))


def degrade(img, sigma, seed):
    soft = blur(img)
    h, w, _ = soft.shape
    small = soft.reshape(h // 2, 2, w // 2, 2, 3).mean((1, 3))
    noise = np.random.RandomState(seed).randn(*small.shape)
    return np.clip(small + sigma * noise, 0.0, 1.0)


class Plates(Dataset):
    def __init__(self, split):
        self.split = split
        self.plates = np.load(DATA / "plates.npz")["plates"]
        with open(DATA / "plates.csv") as f:
            self.rows = [r for r in csv.DictReader(f) if r["split"] == split]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        r = self.rows[i]
        top, left = int(r["top"]), int(r["left"])
        img = self.plates[int(r["row"]), top:top + OPT.patch, left:left + OPT.patch] / 255.0
        mask = np.ones((OPT.patch, OPT.patch, 1))
        mask[:, int(r["seam_from"]):int(r["seam_to"])] = 0
        small = degrade(img, float(r["noise"]), 100 + int(r["row"]))
        full = np.concatenate([img, mask], -1)
        if self.split == "train":
            if np.random.rand() < 0.5:
                small, full = small[:, ::-1], full[:, ::-1]
            k = np.random.randint(4)
            small, full = np.rot90(small, k), np.rot90(full, k)
        to = lambda a: torch.from_numpy(np.ascontiguousarray(a.transpose(2, 0, 1), dtype="float32"))
        return to(small), to(full)


def loader(split):
    return DataLoader(Plates(split), batch_size=4, shuffle=split == "train", drop_last=split == "train")
