"""Wolberg's breast cancer table: standardised numbers, binned columns as categories."""
import numpy as np
from paddle.io import Dataset, Sampler
from sklearn.datasets import load_breast_cancer


def folds(labels, count):
    """A fold for each row, class by class in turn, so that all folds have the same mixture."""
    fold = np.zeros(len(labels), dtype=int)
    seen = {}
    for row, c in enumerate(labels):
        fold[row] = seen.get(int(c), 0) % count
        seen[int(c)] = seen.get(int(c), 0) + 1
    return fold


class Scaler:
    """Logarithm of skewed columns, then mean 0 and deviation 1 on the rows it was fitted to."""

    def __init__(self, clip):
        self.clip = clip

    def fit(self, x):
        z = (x - x.mean(axis=0)) / x.std(axis=0)
        self.skewed = (z**3).mean(axis=0) > 1.5
        y = self.squeeze(x)
        self.mean, self.std = y.mean(axis=0), y.std(axis=0)
        return self

    def squeeze(self, x):
        y = np.array(x)
        y[:, self.skewed] = np.log1p(y[:, self.skewed])
        return y

    def __call__(self, x):
        z = (self.squeeze(x) - self.mean) / self.std
        return z.clip(-self.clip, self.clip)


class Binner:
    """Quantiles as edges; each column's categories are numbered behind those of the columns before it."""

    def __init__(self, bins):
        self.bins = bins

    def fit(self, x):
        self.edges, self.offsets, offset = [], [], 0
        for column, n in zip(x.T, self.bins):
            self.edges.append(np.quantile(column, np.arange(1, n) / n))
            self.offsets.append(offset)
            offset += n
        return self

    def __call__(self, x):
        codes = np.empty(x.shape, dtype="int64")
        for i, (edges, offset) in enumerate(zip(self.edges, self.offsets)):
            codes[:, i] = np.digitize(x[:, i], edges) + offset
        return codes


class Patients(Dataset):
    def __init__(self, c, split):
        super().__init__()
        data = load_breast_cancer()
        column = {name: i for i, name in enumerate(data.feature_names)}
        numbers = data.data[:, [column[n] for n in c.numbers]]
        binned = data.data[:, [column[n] for n in c.binned]]
        labels = (data.target == 0).astype("int64")  # 1: malignant
        held = folds(labels, c.folds) == c.fold
        rows = held if split == "val" else ~held
        scaler = Scaler(c.clip).fit(numbers[~held])
        binner = Binner(list(c.binned.values())).fit(binned[~held])
        self.numbers = scaler(numbers[rows]).astype("float32")
        self.codes = binner(binned[rows])
        self.labels = labels[rows]

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return {"numbers": self.numbers[i], "codes": self.codes[i], "labels": self.labels[i]}


class Mixed(Sampler):
    """An order in which the classes come as evenly as they can."""

    def __init__(self, labels, seed):
        super().__init__()
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
