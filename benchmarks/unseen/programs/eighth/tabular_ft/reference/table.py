"""Wolberg's breast cancer table: standardised numbers, binned columns as categories."""
import numpy as np
from sklearn.datasets import load_breast_cancer
from torch.utils.data import Dataset, Sampler


def folds(labels, count):
    """A fold for each row, class by class in turn, so that all folds have the same mixture."""
    fold = np.empty(len(labels), dtype=int)
    for c in np.unique(labels):
        rows = np.flatnonzero(labels == c)
        fold[rows] = np.arange(len(rows)) % count
    return fold


class Scaler:
    """Logarithm of skewed columns, then mean 0 and deviation 1 on the rows it was fitted to."""

    def __init__(self, clip):
        self.clip = clip

    def fit(self, x):
        centre, spread = x.mean(axis=0), x.std(axis=0)
        self.skewed = ((x - centre) ** 3).mean(axis=0) / spread**3 > 1.5
        y = self.squeeze(x)
        self.mean, self.std = y.mean(axis=0), y.std(axis=0, ddof=0)
        return self

    def squeeze(self, x):
        return np.where(self.skewed, np.log1p(x), x)

    def __call__(self, x):
        return np.clip((self.squeeze(x) - self.mean) / self.std, -self.clip, self.clip)


class Binner:
    """Quantiles as edges; each column's categories are numbered behind those of the columns before it."""

    def __init__(self, bins):
        self.bins = bins

    def fit(self, x):
        self.edges = [np.quantile(x[:, i], np.linspace(0, 1, n + 1)[1:-1]) for i, n in enumerate(self.bins)]
        self.offsets = np.concatenate([[0], np.cumsum(self.bins)[:-1]])
        return self

    def __call__(self, x):
        codes = [np.searchsorted(e, x[:, i], side="right") for i, e in enumerate(self.edges)]
        return np.stack(codes, axis=1) + self.offsets


class Patients(Dataset):
    def __init__(self, c, split):
        data = load_breast_cancer()
        names = list(data.feature_names)
        numbers = data.data[:, [names.index(n) for n in c.numbers]]
        binned = data.data[:, [names.index(n) for n in c.binned]]
        labels = 1 - data.target  # 1: malignant
        held = folds(labels, c.folds) == c.fold
        rows = held if split == "val" else ~held
        self.numbers = Scaler(c.clip).fit(numbers[~held])(numbers[rows]).astype("float32")
        self.codes = Binner(list(c.binned.values())).fit(binned[~held])(binned[rows]).astype("int64")
        self.labels = labels[rows].astype("int64")

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return {"numbers": self.numbers[i], "codes": self.codes[i], "labels": self.labels[i]}


class Mixed(Sampler):
    """An order in which the classes come as evenly as they can."""

    def __init__(self, labels, seed):
        self.labels, self.seed, self.epoch = labels, seed, 0

    def __len__(self):
        return len(self.labels)

    def __iter__(self):
        draw = np.random.RandomState(self.seed + 31 * self.epoch)
        place = np.empty(len(self.labels))
        for c in np.unique(self.labels):
            rows = draw.permutation(np.flatnonzero(self.labels == c))
            place[rows] = (np.arange(len(rows)) + 0.5) / len(rows)
        return iter(np.argsort(place, kind="stable").tolist())
