"""From the log to batches."""
import numpy as np
from paddle.io import BatchSampler, DataLoader, Dataset

from .frames import Coast, Log

DEPTH = 3


def year_angle(when):
    start = when.astype("datetime64[Y]").astype("datetime64[D]")
    return 2 * np.pi * ((when - start).astype(int) + 1) / 365.25


def earlier(log, where, when):
    """Up to three surveys of this beach before that day, the latest one first."""
    rows = np.flatnonzero((log.where == where) & (log.when < when))
    rows = rows[np.argsort(log.when[rows])][::-1][:DEPTH]
    past, seen, gap = np.zeros((DEPTH, 5)), np.zeros((DEPTH, 5)), np.zeros(DEPTH)
    n = len(rows)
    past[:n] = log.density()[rows]
    seen[:n] = log.found[rows] >= 0
    gap[:n] = (when - log.when[rows]).astype(int)
    return past, gap, seen


def features(log, where, when, air, wind_from, length, hours):
    past, gap, seen = earlier(log, where, when)
    out = dict(
        season=year_angle(when),
        weather=(np.log1p(air) - log.mean) / log.std,
        wind=np.array([air[0], wind_from]),
        past=past, gap=gap, seen=seen,
        effort=np.log([length / 100.0, hours]),
    )
    out = {k: np.asarray(v, dtype="float32") for k, v in out.items()}
    return dict(beach=np.asarray(where, dtype="int64"), **out)


class BeachWatch(Dataset):
    def __init__(self, split):
        super().__init__()
        self.log = Log(Coast())
        self.rows = self.log.rows[split]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        g, k = self.log, self.rows[i]
        sample = features(g, g.where[k], g.when[k], g.air[k], g.wind_from[k], g.length[k], g.hours[k])
        sample["labels"] = g.found[k].astype("float32")
        return sample


def batches(split):
    data = BeachWatch(split)
    order = BatchSampler(data, shuffle=False, batch_size=12, drop_last=(split == "train"))
    return DataLoader(data, batch_sampler=order, num_workers=0)
