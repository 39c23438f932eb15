from functools import lru_cache
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pandas as pd

from . import config

FOLDER = Path(__file__).resolve().parent.parent.parent / "data"
_inv = np.vectorize(NormalDist().inv_cdf, otypes=[float])


def table(path):
    return pd.read_csv(path, dtype=str, keep_default_na=False, na_values=["", "NA"])


def numbers(frame):
    return frame[config.NUMERIC].astype(float).to_numpy()


def quantile_grid(column):
    return np.quantile(column[~np.isnan(column)], np.linspace(0, 1, config.data["levels"]))


def to_normal(column, grid):
    ranks = np.linspace(0, 1, len(grid))
    forward = np.interp(column, grid, ranks)
    backward = 1.0 - np.interp(-column, -grid[::-1], 1.0 - ranks[::-1])
    margin = config.data["margin"]
    return _inv(np.clip((forward + backward) / 2, margin, 1 - margin))


class Fitted:
    """Everything that is learned from the rows of the training split."""

    def __init__(self, frame):
        self.grids = [quantile_grid(c) for c in numbers(frame).T]
        self.codes = []
        for name in config.CATEGORIES:
            seen = sorted(frame[name].dropna().unique())
            self.codes.append({v: n for n, v in enumerate(seen, start=1)})
        logs = np.log(frame["price"].dropna().astype(float).to_numpy())
        self.centre, self.spread = float(logs.mean()), float(logs.std())

    def sizes(self):
        return [len(c) + 1 for c in self.codes]

    def encode(self, frame):
        raw = numbers(frame)
        gaps = np.isnan(raw)
        filled = np.zeros_like(raw)
        for j, grid in enumerate(self.grids):
            ok = ~gaps[:, j]
            filled[ok, j] = to_normal(raw[ok, j], grid)
        cats = np.stack([frame[name].map(code).fillna(0).astype("int64").to_numpy()
                         for name, code in zip(config.CATEGORIES, self.codes)], axis=1)
        return filled.astype("float32"), gaps.astype("float32"), cats

    def answers(self, frame):
        speed = frame["speed"].map(config.SPEED).to_numpy().astype("int64")
        price = (np.log(frame["price"].astype(float).to_numpy()) - self.centre) / self.spread
        priced = ~np.isnan(price)
        return speed, np.nan_to_num(price).astype("float32"), priced.astype("float32")


@lru_cache(maxsize=None)
def fitted():
    return Fitted(table(FOLDER / "train.csv"))
