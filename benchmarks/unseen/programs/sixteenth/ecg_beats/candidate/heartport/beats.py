"""Recordings, beats, sampler and loaders."""
import csv
import json

import numpy as np
from paddle.io import BatchSampler, DataLoader, Dataset

from .settings import data_file


class Recording:
    """One record: cleaned signal [time, leads], positions and symbols of its beats, RR features."""

    def __init__(self, name, window):
        self.window = window
        with open(data_file("records.json")) as f:
            calibration = json.load(f)[name]
        millivolt = np.load(data_file("records", name + ".npy")).astype("float64")
        millivolt -= calibration["baseline"]
        millivolt /= calibration["gain"]
        self.signal = self._clean(millivolt, window["detrend"])
        with open(data_file("annotations.csv"), newline="") as f:
            beats = [(int(r["sample"]), r["symbol"]) for r in csv.DictReader(f) if r["record"] == name]
        self.positions = np.array([p for p, _ in beats])
        self.symbols = [s for _, s in beats]
        self.rr = self._rr(window["rr_history"])

    @staticmethod
    def _clean(x, width):
        side = (width - 1) // 2
        padded = np.concatenate([np.repeat(x[:1], side, 0), x, np.repeat(x[-1:], side, 0)])
        total = np.cumsum(np.concatenate([np.zeros((1, x.shape[1])), padded]), axis=0)
        x = x - (total[width:] - total[:-width]) / width
        return x / (np.std(x, axis=0, keepdims=True) + 1e-8)

    def _rr(self, history):
        gaps = np.diff(self.positions) * 1.0
        typical = gaps.mean()
        previous = np.concatenate([[typical], gaps])
        following = np.concatenate([gaps, [typical]])
        recent = np.full(len(previous), typical)
        for i in range(1, len(recent)):
            recent[i] = gaps[max(i - history, 0):i].mean()
        return np.stack([previous / typical, following / typical, previous / recent], axis=1) - 1.0

    def beat(self, position):
        """Window around a position, [leads, time]; the ends of the recording are repeated."""
        steps = np.arange(-self.window["before"], self.window["after"]) + position
        return self.signal[steps.clip(0, self.signal.shape[0] - 1)].transpose(1, 0)


class Beats(Dataset):
    def __init__(self, cfg, split):
        super().__init__()
        self.augment = cfg.augment if split == "train" else None
        self.items = []
        for name in cfg.splits[split]:
            recording = Recording(name, cfg.window)
            for k, symbol in enumerate(recording.symbols):
                self.items.append((recording, k, cfg.label_of[symbol]))
        self.labels = np.array([item[-1] for item in self.items], dtype="int64")

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        recording, k, label = self.items[i]
        position, gain = int(recording.positions[k]), 1.0
        if self.augment is not None:
            draw = np.random.RandomState(1000 + i)
            position += draw.randint(-self.augment["shift"], self.augment["shift"] + 1)
            gain += self.augment["scale"] * draw.uniform(-1.0, 1.0)
        wave = (gain * recording.beat(position)).astype("float32")
        return wave, recording.rr[k].astype("float32"), np.int64(label)


class BalancedBatches(BatchSampler):
    """Batches of indices that are drawn with replacement, rare classes more often."""

    def __init__(self, labels, batch_size, power, seed):
        self.batch_size = batch_size
        self.seed, self.epoch = seed, 0
        frequency = np.bincount(labels)[labels]
        inverse = np.power(frequency.astype("float64"), -power)
        self.p = inverse / inverse.sum()

    def __len__(self):
        return len(self.p) // self.batch_size

    def __iter__(self):
        n = len(self.p)
        order = np.random.RandomState(self.seed + self.epoch).choice(n, size=n, replace=True, p=self.p)
        for b in range(len(self)):
            yield order[b * self.batch_size:(b + 1) * self.batch_size].tolist()


def loader_for(cfg, split):
    beats = Beats(cfg, split)
    if split != "train":
        return DataLoader(beats, batch_size=cfg.batch_size, shuffle=False, drop_last=False)
    batches = BalancedBatches(beats.labels, cfg.batch_size, **cfg.sampler)
    return DataLoader(beats, batch_sampler=batches)
