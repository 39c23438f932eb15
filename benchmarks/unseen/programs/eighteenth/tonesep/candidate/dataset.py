"""Random two-voice mixtures (numpy only until collation)."""
import os

import numpy as np
from paddle.io import BatchSampler, DataLoader, Dataset

from .settings import DATA_DIR, TRAINING

N_TRAIN_NOTES = 12


def remove_dc(x):
    return x - np.mean(x, axis=1, keepdims=True)


def fade_edges(x, width=64):
    rise = np.sin(0.5 * np.pi * (np.arange(width) + 0.5) / width) ** 2
    envelope = np.ones(x.shape[1], dtype=np.float32)
    envelope[:width] = rise
    envelope[-width:] = rise[::-1]
    return x * envelope


def level_mixture(x, rms=0.1):
    mixture = x.sum(axis=0)
    return (x * (rms / np.sqrt((mixture ** 2).mean() + 1e-8))).astype("float32")


PIPELINE = [remove_dc, fade_edges, level_mixture]


class MixtureSet(Dataset):
    def __init__(self, subset):
        super().__init__()
        archive = np.load(os.path.join(DATA_DIR, "notes.npz"))
        window = slice(None, N_TRAIN_NOTES) if subset == "train" else slice(N_TRAIN_NOTES, None)
        self.bank = archive["waves"][window].astype("float32") / 2 ** 15
        self.f0 = archive["pitch"][window]
        self.first_seed, self.count = (1000, TRAINING["n_train"]) if subset == "train" else (9000, TRAINING["n_val"])
        self.transforms = list(PIPELINE)

    def __len__(self):
        return self.count

    def draw(self, rng):
        crop = TRAINING["crop"]
        a, b = rng.choice(len(self.bank), 2, replace=False)
        low, high = (b, a) if self.f0[b] < self.f0[a] else (a, b)
        t0, t1 = rng.randint(0, self.bank.shape[1] - crop, 2)
        gain = np.float32(10 ** (rng.uniform(-TRAINING["level"], TRAINING["level"]) / 20))
        return np.stack([self.bank[low, t0:t0 + crop], self.bank[high, t1:t1 + crop] * gain])

    def __getitem__(self, i):
        voices = self.draw(np.random.RandomState(self.first_seed + i))
        for fn in self.transforms:
            voices = fn(voices)
        return voices.sum(axis=0), voices


class ReproducibleBatches(BatchSampler):
    def __init__(self, dataset, batch_size, seed=11):
        super().__init__(dataset, batch_size=batch_size, drop_last=True)
        self.n, self.seed, self.epoch = len(dataset), seed, 0

    def __iter__(self):
        order = np.random.RandomState(self.seed + self.epoch).permutation(self.n)
        for start in range(0, self.n - self.batch_size + 1, self.batch_size):
            yield order[start:start + self.batch_size].tolist()


def make_loader(subset):
    dataset = MixtureSet(subset)
    if subset == "train":
        return DataLoader(dataset, batch_sampler=ReproducibleBatches(dataset, TRAINING["batch"]))
    return DataLoader(dataset, batch_size=TRAINING["batch"], shuffle=False)
