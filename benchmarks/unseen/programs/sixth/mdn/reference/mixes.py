"""A concrete-like table: five amounts, one of three curing methods, two strengths with two regimes."""
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

SKEWED = [0, 3]


def make_table(n=220, seed=17):
    rng = np.random.RandomState(seed)
    x = np.stack(
        [rng.lognormal(1.0, 0.8, n), rng.uniform(-1, 3, n), rng.normal(10, 2, n), rng.exponential(4.0, n), rng.beta(2, 5, n)],
        axis=1,
    )
    cure = rng.randint(0, 3, n)
    regime = rng.rand(n) < 0.5
    a = np.sin(x[:, 1]) * 3 + np.log1p(x[:, 0]) + cure + np.where(regime, 4.0, 0.0)
    b = 0.4 * x[:, 2] - np.sqrt(x[:, 3]) + 6 * x[:, 4] * (cure == 1) + np.where(regime, -2.0, 1.0)
    return x, cure, np.stack([a, b], axis=1) + rng.normal(0, 0.3, (n, 2))


class Preprocessor:
    def fit(self, x, y):
        x = self._log(x)
        self.low, self.high = np.quantile(x, 0.02, axis=0), np.quantile(x, 0.98, axis=0)
        x = x.clip(self.low, self.high)
        self.x_mean, self.x_std = x.mean(0), x.std(0, ddof=1)
        self.y_mean, self.y_std = y.mean(0), y.std(0, ddof=1)
        return self

    @staticmethod
    def _log(x):
        x = x.copy()
        x[:, SKEWED] = np.log1p(x[:, SKEWED])
        return x

    def __call__(self, x, cure, y):
        x = (self._log(x).clip(self.low, self.high) - self.x_mean) / self.x_std
        one_hot = np.eye(3)[cure]
        return np.concatenate([x, one_hot], axis=1), (y - self.y_mean) / self.y_std


class MixDataset(Dataset):
    def __init__(self, split, val_share=0.25):
        x, cure, y = make_table()
        order = np.random.RandomState(13).permutation(len(x))
        n_val = int(round(val_share * len(x)))
        train, val = order[n_val:], order[:n_val]
        prep = Preprocessor().fit(x[train], y[train])
        rows = train if split == "train" else val
        x, y = prep(x[rows], cure[rows], y[rows])
        self.x, self.y = torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def make_loader(split, batch_size=16):
    return DataLoader(MixDataset(split), batch_size, shuffle=split == "train", drop_last=split == "train")
