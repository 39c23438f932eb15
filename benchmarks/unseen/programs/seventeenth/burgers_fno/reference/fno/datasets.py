import csv
from functools import lru_cache

import numpy as np
import torch
from torch.utils.data import Dataset, Sampler

from .config import DATA_ROOT
from .normalizer import GaussianNormalizer, LogRange


@lru_cache(maxsize=None)
def load_split(split):
    """Trajectories (cases x times x points) and viscosities, rejected runs left out."""
    with open(DATA_ROOT / "cases.csv", newline="") as f:
        rows = [row for row in csv.DictReader(f) if row["split"] == split and row["rejected"] == "0"]
    array = np.load(DATA_ROOT / f"burgers_{split}.npy")
    fields = torch.from_numpy(array[[int(row["row"]) for row in rows]])
    return fields, torch.tensor([float(row["viscosity"]) for row in rows], dtype=torch.float64)


@lru_cache(maxsize=None)
def normalizers():
    """For inputs, for targets and for the viscosity, all of the training split."""
    fields, viscosity = load_split("train")
    return (
        GaussianNormalizer(fields[:, :-1].flatten(0, 1)),
        GaussianNormalizer(fields[:, 1:].flatten(0, 1)),
        LogRange(viscosity),
    )


class BurgersPairs(Dataset):
    """(field, viscosity, {next, second}): a step of the solver and the step after it."""

    def __init__(self, split, seed):
        self.fields, self.viscosity = load_split(split)
        self.augment, self.seed = split == "train", seed
        self.encode_field, _, self.encode_viscosity = normalizers()
        self.starts = self.fields.shape[1] - 2

    def __len__(self):
        return len(self.fields) * self.starts

    def __getitem__(self, index):
        case, start = divmod(index, self.starts)
        window = self.fields[case, start : start + 3]
        if self.augment:
            window = self.transform(window, index)
        nu = self.encode_viscosity.encode(self.viscosity[case]).float()
        return self.encode_field.encode(window[0]), nu, {"next": window[1], "second": window[2]}

    def transform(self, window, index):
        """Symmetries of the equation: a shift along x, and u(x) -> -u(-x)."""
        rng = np.random.default_rng([self.seed, index])
        window = torch.roll(window, int(rng.integers(window.shape[-1])), dims=-1)
        if rng.random() < 0.5:
            window = -window.flip(-1)
        return window


class StratifiedSampler(Sampler):
    """Interleaves the starts, so that every batch has early and late times of the trajectories."""

    def __init__(self, dataset, seed):
        self.cases, self.starts, self.seed = len(dataset.fields), dataset.starts, seed

    def __iter__(self):
        rng = np.random.default_rng(self.seed)
        columns = [rng.permutation(self.cases) * self.starts + s for s in range(self.starts)]
        return iter(np.stack(columns, 1).ravel().tolist())

    def __len__(self):
        return self.cases * self.starts
