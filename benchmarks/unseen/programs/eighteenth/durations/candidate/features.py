"""Reading and encoding of the questionnaire."""
import csv
from pathlib import Path

import numpy as np
from paddle.io import BatchSampler, DataLoader, Dataset

FOLDER = Path(__file__).resolve().parents[1] / "data"
CONTINUOUS = ("age", "children", "educ", "rate_marriage")
LEVELS = (("religious", 4), ("occupation", 6), ("occupation_husb", 6))
N_KNOTS = 6
BATCH_SIZE = 64


def read_columns(path):
    """Dict of float arrays; empty cells are NaN."""
    with open(path, newline="") as handle:
        rows = list(csv.DictReader(handle))
    return {key: np.array([float(r[key]) if r[key] else np.nan for r in rows]) for key in rows[0]}


def subset(columns, split):
    n = len(next(iter(columns.values())))
    held_out = np.arange(n) % 5 == 4
    return {k: v[held_out if split == "val" else ~held_out] for k, v in columns.items()}


class Preprocessor:
    """Fitted on the training part."""

    def __init__(self, columns):
        x = np.stack([columns[c] for c in CONTINUOUS], axis=1)
        self.median = np.nanmedian(x, axis=0)
        x = np.where(np.isnan(x), self.median, x)
        self.mu, self.sigma = x.mean(axis=0), x.std(axis=0, ddof=1)
        levels = np.linspace(0.05, 0.95, N_KNOTS)
        self.knots = np.stack([np.quantile(column, levels) for column in ((x - self.mu) / self.sigma).T])

    def fill(self, record):
        x = record["numeric"]
        record["missing"] = np.isnan(x)
        record["numeric"] = np.where(record["missing"], self.median, x)
        return record

    def standardise(self, record):
        record["numeric"] = (record["numeric"] - self.mu) / self.sigma
        return record

    def expand(self, record):
        x, missing = record.pop("numeric"), record.pop("missing")
        basis = np.clip(x[:, np.newaxis] - self.knots, 0.0, None) * ~missing[:, np.newaxis]
        encoded = {"numeric": np.column_stack([x, basis, missing]).astype("float32")}
        limits = np.array([size for _, size in LEVELS])
        codes = record["codes"]
        encoded["codes"] = np.where((codes >= 1) & (codes <= limits), codes, 0).astype("int64")
        if "target" in record:
            encoded["target"] = record["target"].astype("float32")
        return encoded

    @property
    def steps(self):
        return [self.fill, self.standardise, self.expand]


def fitted():
    columns = read_columns(FOLDER / "couples.csv")
    return columns, Preprocessor(subset(columns, "train"))


class Survey(Dataset):
    def __init__(self, columns, preprocessor):
        super().__init__()
        self.x = np.stack([columns[c] for c in CONTINUOUS], axis=1)
        self.c = np.stack([columns[name] for name, _ in LEVELS], axis=1)
        self.y = np.stack([columns["yrs_married"], columns["event"]], axis=1) if "event" in columns else None
        self.transforms = preprocessor.steps

    @classmethod
    def of(cls, split):
        columns, preprocessor = fitted()
        return cls(subset(columns, split), preprocessor)

    def __len__(self):
        return self.x.shape[0]

    def __getitem__(self, i):
        record = {"numeric": self.x[i], "codes": self.c[i]}
        if self.y is not None:
            record["target"] = self.y[i]
        for step in self.transforms:
            record = step(record)
        return record


class StratifiedBatches(BatchSampler):
    """Deals events and censored rows out evenly over the batches of an epoch."""

    def __init__(self, dataset, batch_size, seed=3):
        super().__init__(dataset, batch_size=batch_size)
        self.flags = dataset.y[:, 1]
        self.seed, self.epoch = seed, 0

    def __len__(self):
        return len(self.flags) // self.batch_size

    def __iter__(self):
        rng = np.random.RandomState(self.seed + self.epoch)
        decks = [np.array_split(rng.permutation(np.where(self.flags == flag)[0]), len(self)) for flag in (1, 0)]
        for hand in zip(*decks):
            yield [int(i) for i in rng.permutation(np.concatenate(hand))]


def make_loader(split):
    survey = Survey.of(split)
    if split == "train":
        return DataLoader(survey, batch_sampler=StratifiedBatches(survey, BATCH_SIZE))
    return DataLoader(survey, batch_size=BATCH_SIZE)
