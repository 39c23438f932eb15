"""Beats as a torch data set, and the class balanced sampler."""
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from .signals import cut, load_record, read_annotations, rr_features


class BeatDataset(Dataset):
    def __init__(self, config, split):
        self.config = config
        self.train = split == "train"
        self.signals, self.beats = {}, []
        window = config.window
        for record in config.splits[split]:
            self.signals[record] = load_record(record, window.detrend)
            peaks, symbols = read_annotations(record)
            for peak, symbol, rr in zip(peaks, symbols, rr_features(peaks, window.rr_history)):
                self.beats.append((record, int(peak), rr, config.symbol_to_class[symbol]))

    @property
    def targets(self):
        return np.array([beat[3] for beat in self.beats])

    def __len__(self):
        return len(self.beats)

    def __getitem__(self, index):
        record, peak, rr, target = self.beats[index]
        scale = 1.0
        if self.train:
            rng = np.random.RandomState(1000 + index)
            peak = peak + rng.randint(-self.config.augment.shift, self.config.augment.shift + 1)
            scale = 1.0 + self.config.augment.scale * rng.uniform(-1.0, 1.0)
        window = scale * cut(self.signals[record], peak, self.config.window.before, self.config.window.after)
        return (
            torch.from_numpy(window.astype(np.float32)),
            torch.from_numpy(rr.astype(np.float32)),
            torch.tensor(target, dtype=torch.int64),
        )


class ClassBalancedSampler(Sampler):
    """Draws with replacement; a class has the weight count ** (1 - power)."""

    def __init__(self, targets, power, seed):
        counts = np.bincount(targets)
        weights = 1.0 / counts[targets].astype(np.float64) ** power
        self.probabilities = weights / weights.sum()
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return len(self.probabilities)

    def __iter__(self):
        rng = np.random.RandomState(self.seed + self.epoch)
        return iter(rng.choice(len(self), size=len(self), replace=True, p=self.probabilities).tolist())


def make_loader(config, split):
    dataset = BeatDataset(config, split)
    if split == "train":
        sampler = ClassBalancedSampler(dataset.targets, config.sampler.power, config.sampler.seed)
        return DataLoader(dataset, batch_size=config.batch_size, sampler=sampler, drop_last=True)
    return DataLoader(dataset, batch_size=config.batch_size, shuffle=False)
