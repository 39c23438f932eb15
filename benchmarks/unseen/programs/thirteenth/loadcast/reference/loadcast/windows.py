import numpy as np
from torch.utils.data import DataLoader, Dataset

from .table import Scaler, read_table


class Scale:
    def __init__(self, scaler):
        self.scaler = scaler

    def __call__(self, s):
        demand = self.scaler.demand(s["demand"], s["series"])
        observed = ~np.isnan(demand)
        return {
            **s,
            "demand": np.where(observed, demand, 0.0),
            "observed": observed.astype("float64"),
            "temperature": self.scaler.temperature(s["temperature"]),
        }


class Calendar:
    """Hour and weekday as points on circles."""

    def __call__(self, s):
        day, week = 2 * np.pi * s["hour"] / 24, 2 * np.pi * s["weekday"] / 7
        known = np.stack([np.sin(day), np.cos(day), np.sin(week), np.cos(week), s["temperature"]], -1)
        return {**s, "known": known}


class RandomMask:
    """Hides hours of the past."""

    def __init__(self, past, rate):
        self.past, self.rate = past, rate

    def __call__(self, s):
        keep = np.ones(len(s["demand"]))
        keep[: self.past] = np.random.rand(self.past) >= self.rate
        return {**s, "demand": s["demand"] * keep, "observed": s["observed"] * keep}


class Pack:
    def __init__(self, past, latent):
        self.past, self.latent = past, latent

    def __call__(self, s):
        p = self.past
        both = np.stack([s["demand"], s["observed"]], -1).astype("float32")
        noise = np.random.RandomState(1000 + s["index"]).randn(self.latent)
        return {
            "past": both[:p],
            "known": s["known"].astype("float32"),
            "series": np.int64(s["series"]),
            "future": both[p:, 0],
            "noise": noise.astype("float32"),
            "labels": both[p:],
        }


class Compose:
    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, x):
        for t in self.transforms:
            x = t(x)
        return x


def build_transform(cfg, split):
    d = cfg.data
    scaler = Scaler(read_table(), d.stations, d.train_hours)
    steps = [Scale(scaler), Calendar()]
    if split == "train":
        steps.append(RandomMask(d.past, d.mask_rate))
    steps.append(Pack(d.past, cfg.model.latent))
    return Compose(steps)


class Windows(Dataset):
    def __init__(self, cfg, split):
        d = cfg.data
        self.table, self.stations = read_table(), d.stations
        self.transform = build_transform(cfg, split)
        self.length = d.past + d.horizon
        hours = len(self.table[d.stations[0]]["hour"])
        if split == "train":
            starts = range(0, d.train_hours - self.length + 1, d.stride)
        else:
            starts = range(d.train_hours - d.past, hours - self.length + 1, d.stride)
        self.index = [(k, start) for k in range(len(d.stations)) for start in starts]

    def __len__(self):
        return len(self.index)

    def __getitem__(self, i):
        series, start = self.index[i]
        source = self.table[self.stations[series]]
        sample = {k: v[start : start + self.length] for k, v in source.items()}
        return self.transform({**sample, "series": series, "index": i})


def build_loader(cfg, split):
    return DataLoader(Windows(cfg, split), cfg.data.batch_size, shuffle=split == "train")
