from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

DATA = Path(__file__).resolve().parent.parent / "data"
PAST, FUTURE, SEED = 8, 12, 31
SCALE = 2.0


class Center:
    """The origin is the mean of the agents that are seen now."""

    def __call__(self, s):
        now = s["seen"][PAST - 1]
        origin = s["pos"][PAST - 1][now].mean(0) if now.any() else np.zeros(2, np.float32)
        return {**s, "pos": s["pos"] - origin, "origin": origin}


class Rotate:
    def __call__(self, s):
        a = np.random.RandomState(SEED + s["id"]).uniform(-np.pi, np.pi)
        rot = np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]], dtype=np.float32)
        return {**s, "pos": s["pos"] @ rot.T}


class Jitter:
    """Noise of the sensor, on the past alone."""

    def __init__(self, std=0.02):
        self.std = std

    def __call__(self, s):
        pos = s["pos"].copy()
        pos[:PAST] += np.random.RandomState(SEED + 7919 + s["id"]).normal(0, self.std, pos[:PAST].shape).astype(np.float32)
        return {**s, "pos": pos}


class Rescale:
    def __call__(self, s):
        return {**s, "pos": np.where(s["seen"][..., None], s["pos"] / SCALE, 0).astype(np.float32)}


def pipeline(split):
    return [Center()] + ([Rotate(), Jitter()] if split == "train" else []) + [Rescale()]


def to_agents(s):
    """Agents first: past, seen and kind for the model."""
    return {
        "past": torch.from_numpy(s["pos"][:PAST]).transpose(0, 1),
        "seen": torch.from_numpy(s["seen"][:PAST]).transpose(0, 1),
        "kind": torch.from_numpy(s["kind"]),
    }


class SpringScenes(Dataset):
    def __init__(self, split):
        with np.load(DATA / "scenes.npz") as f:
            rows = np.arange(len(f["pos"]))
            rows = rows[rows % 5 == 0] if split == "val" else rows[rows % 5 != 0]
            self.pos, self.seen, self.kind = (f[k][rows] for k in ("pos", "seen", "kind"))
        self.transforms = pipeline(split)

    def __len__(self):
        return len(self.pos)

    def __getitem__(self, i):
        s = {"id": i, "pos": self.pos[i], "seen": self.seen[i], "kind": self.kind[i]}
        for t in self.transforms:
            s = t(s)
        future = torch.from_numpy(s["pos"][PAST:]).transpose(0, 1)
        valid = torch.from_numpy(s["seen"][PAST:] & s["seen"][PAST - 1]).transpose(0, 1)
        return {**to_agents(s), "labels": torch.cat([future, valid.unsqueeze(-1).float()], -1)}


class CrowdSampler(Sampler):
    """With replacement, crowded scenes more often."""

    def __init__(self, ds):
        agents = ds.seen[:, PAST - 1].sum(1).astype(np.float64)
        self.p = np.sqrt(agents) / np.sqrt(agents).sum()
        self.epoch = 0

    def __len__(self):
        return len(self.p) // 8 * 8

    def __iter__(self):
        rng = np.random.RandomState(SEED + self.epoch)
        return iter(rng.choice(len(self.p), size=len(self), p=self.p).tolist())


def make_loader(split):
    ds = SpringScenes(split)
    return DataLoader(ds, 8, sampler=CrowdSampler(ds)) if split == "train" else DataLoader(ds, 8)
