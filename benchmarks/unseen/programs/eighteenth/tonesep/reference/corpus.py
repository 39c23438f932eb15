"""Duets, mixed on the fly from single notes."""
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from .config import DATA, TrainConfig

CFG = TrainConfig()


class RemoveOffset:
    def __call__(self, sources):
        return sources - sources.mean(axis=-1, keepdims=True)


class Fade:
    """Raised-cosine fade at both ends of a segment."""

    def __init__(self, samples=64):
        self.ramp = (0.5 - 0.5 * np.cos(np.pi * (np.arange(samples) + 0.5) / samples)).astype(np.float32)

    def __call__(self, sources):
        out = sources.copy()
        out[:, : len(self.ramp)] *= self.ramp
        out[:, -len(self.ramp):] *= self.ramp[::-1]
        return out


class MixtureLevel:
    """Scales so that the mixture has the wanted root mean square."""

    def __init__(self, rms=0.1):
        self.rms = rms

    def __call__(self, sources):
        level = np.sqrt(np.mean(np.square(sources.sum(axis=0))) + 1e-8)
        return (sources * (self.rms / level)).astype(np.float32)


def transforms(split):
    return [RemoveOffset(), Fade(), MixtureLevel()]


class Duets(Dataset):
    def __init__(self, split, cfg=CFG):
        raw = np.load(DATA / "notes.npz")
        keep = np.arange(len(raw["waves"])) < 12
        if split != "train":
            keep = ~keep
        self.waves = raw["waves"][keep].astype(np.float32) / 32768.0
        self.pitch = raw["pitch"][keep]
        self.cfg = cfg
        self.base = 1000 if split == "train" else 9000
        self.length = dict(cfg.items)[split if split == "train" else "val"]
        self.transforms = transforms(split)

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        rng = np.random.RandomState(self.base + index)
        pair = rng.choice(len(self.waves), size=2, replace=False)
        pair = pair[np.argsort(self.pitch[pair], kind="stable")]  # low voice first
        starts = rng.randint(0, self.waves.shape[1] - self.cfg.segment, size=2)
        db = rng.uniform(-self.cfg.level_db, self.cfg.level_db)
        sources = np.stack([self.waves[n, s: s + self.cfg.segment] for n, s in zip(pair, starts)])
        sources[1] *= np.float32(10.0 ** (db / 20.0))
        for step in self.transforms:
            sources = step(sources)
        return torch.from_numpy(sources.sum(axis=0)), torch.from_numpy(sources)


class EpochOrder(Sampler):
    """One numpy permutation per epoch, so that every machine sees the same order."""

    def __init__(self, n, seed=11):
        self.n, self.seed, self.epoch = n, seed, 0

    def __iter__(self):
        order = np.random.RandomState(self.seed + self.epoch).permutation(self.n)
        return iter(order.tolist())

    def __len__(self):
        return self.n


def loader(split, cfg=CFG):
    data = Duets(split, cfg)
    if split == "train":
        return DataLoader(data, cfg.batch_size, sampler=EpochOrder(len(data)), drop_last=True)
    return DataLoader(data, cfg.batch_size)
