import csv
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, Sampler

DATA = Path(__file__).resolve().parent.parent / "data"
TILE, CROP, SEED = 28, 24, 2024


def rng_for(sample, salt):
    return np.random.RandomState(SEED + 31 * sample["id"] + salt)


class Crop:
    def __init__(self, train):
        self.train = train

    def __call__(self, sample):
        room = TILE - CROP
        if self.train:
            y, x = rng_for(sample, 1).randint(0, room + 1, size=2)
        else:
            y = x = room // 2
        return {**sample, "pixels": sample["pixels"][y : y + CROP, x : x + CROP]}


class Flip:
    def __call__(self, sample):
        if rng_for(sample, 2).rand() < 0.5:
            sample = {**sample, "pixels": sample["pixels"][:, ::-1]}
        return sample


class ToTensor:
    """uint8 HWC to float CHW in [-1, 1]."""

    def __call__(self, sample):
        x = torch.from_numpy(np.ascontiguousarray(sample["pixels"]))
        return {**sample, "pixels": x.permute(2, 0, 1).float() / 127.5 - 1}


class Erase:
    """Blanks random cells (to the picture's mean colour); the target stays whole."""

    def __init__(self, cell=4, share=0.15):
        self.cell, self.share = cell, share

    def __call__(self, sample):
        x = sample["pixels"]
        n = CROP // self.cell
        hit = torch.from_numpy(rng_for(sample, 3).rand(n, n) < self.share)
        hit = hit.repeat_interleave(self.cell, 0).repeat_interleave(self.cell, 1)
        mean = x.double().mean(dim=(1, 2), keepdim=True).float()
        return {**sample, "image": torch.where(hit, mean, x)}


def get_transforms(split):
    train = split == "train"
    return [Crop(train)] + ([Flip()] if train else []) + [ToTensor(), Erase()]


class PatchSheet(Dataset):
    def __init__(self, split):
        sheet = np.asarray(Image.open(DATA / "sheet.png").convert("RGB"))
        with open(DATA / "index.csv") as f:
            places = [(int(r["row"]), int(r["col"])) for r in csv.DictReader(f) if r["split"] == split]
        self.items = [sheet[r * TILE : (r + 1) * TILE, c * TILE : (c + 1) * TILE] for r, c in places]
        self.transforms = get_transforms(split)

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        sample = {"id": i, "pixels": self.items[i]}
        for t in self.transforms:
            sample = t(sample)
        return {"image": sample["image"], "labels": sample["pixels"]}


class EpochShuffle(Sampler):
    def __init__(self, n):
        self.n, self.epoch = n, 0

    def __iter__(self):
        return iter(np.random.RandomState(SEED + self.epoch).permutation(self.n).tolist())

    def __len__(self):
        return self.n


def get_loader(split, batch=8):
    ds = PatchSheet(split)
    if split == "train":
        return DataLoader(ds, batch_size=batch, sampler=EpochShuffle(len(ds)), drop_last=True)
    return DataLoader(ds, batch_size=6)
