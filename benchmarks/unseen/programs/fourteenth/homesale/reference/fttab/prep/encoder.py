import csv
import math

import numpy as np
import torch

MISSING = ("", "NA")


def read_rows(path):
    with open(path, newline="") as fh:
        return list(csv.DictReader(fh))


class QuantileNormal:
    """Column-wise map to a normal distribution through the empirical quantiles."""

    def __init__(self, n_quantiles, clip):
        self.levels = np.linspace(0.0, 1.0, n_quantiles)
        self.clip = clip
        self.quantiles = []

    def fit(self, table):
        self.quantiles = []
        for col in table.T:
            seen = col[~np.isnan(col)]
            self.quantiles.append(np.quantile(seen, self.levels))
        return self

    def transform(self, table):
        out = np.empty_like(table)
        for j, q in enumerate(self.quantiles):
            col = table[:, j]
            # average of both directions, so that ties land in their middle
            up = np.interp(col, q, self.levels)
            down = -np.interp(-col, -q[::-1], -self.levels[::-1])
            p = np.clip(0.5 * (up + down), self.clip, 1.0 - self.clip)
            out[:, j] = torch.special.ndtri(torch.from_numpy(p)).numpy()
        return out


class Vocabulary:
    def __init__(self, values):
        self.index = {v: i + 1 for i, v in enumerate(sorted(set(values) - set(MISSING)))}

    def __len__(self):
        return len(self.index) + 1

    def __getitem__(self, value):
        return self.index.get(value, 0)


class TableEncoder:
    def __init__(self, settings):
        self.numeric = settings.names("columns", "numeric")
        self.categorical = settings.names("columns", "categorical")
        self.classes = settings.names("columns", "classes")
        self.class_target = settings("columns", "class_target")
        self.value_target = settings("columns", "value_target")
        self.scaler = QuantileNormal(settings("scaling", "quantiles", int), settings("scaling", "clip", float))

    def _numbers(self, rows):
        return np.array([[float("nan") if r[c] in MISSING else float(r[c]) for c in self.numeric] for r in rows])

    def fit(self, rows):
        self.scaler.fit(self._numbers(rows))
        self.vocabs = [Vocabulary(r[c] for r in rows) for c in self.categorical]
        prices = [math.log(float(r[self.value_target])) for r in rows if r[self.value_target] not in MISSING]
        self.price_mean = float(np.mean(prices))
        self.price_std = float(np.std(prices))
        return self

    @property
    def cardinalities(self):
        return [len(v) for v in self.vocabs]

    def inputs(self, rows):
        raw = self._numbers(rows)
        missing = np.isnan(raw)
        scaled = np.where(missing, 0.0, self.scaler.transform(raw))
        cats = np.array([[v[r[c]] for c, v in zip(self.categorical, self.vocabs)] for r in rows], dtype=np.int64)
        return scaled.astype(np.float32), missing.astype(np.float32), cats

    def targets(self, rows):
        speed = np.array([self.classes.index(r[self.class_target]) for r in rows], dtype=np.int64)
        priced = np.array([r[self.value_target] not in MISSING for r in rows])
        price = np.zeros(len(rows))
        for i, r in enumerate(rows):
            if priced[i]:
                price[i] = (math.log(float(r[self.value_target])) - self.price_mean) / self.price_std
        return speed, price.astype(np.float32), priced.astype(np.float32)
