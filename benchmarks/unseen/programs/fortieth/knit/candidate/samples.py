import numpy as np
from paddle.io import BatchSampler, DataLoader, Dataset

from .reader import charts

SEEN = 4
EVERY = dict(train=2, val=3)
PER_BATCH = 6


class Yarn:
    """Gauge and needle in standard deviations of the charts for training."""

    def __init__(self):
        known = np.array([(c.gauge, c.needle) for c in charts() if c.split == "train"])
        self.mean = known.mean(axis=0)
        self.std = known.std(axis=0, ddof=1)

    def facts(self, chart, row):
        gauge, needle = (np.array([chart.gauge, chart.needle]) - self.mean) / self.std
        return np.array([gauge, needle, chart.flat, row % 2], dtype="float32")


class Windows(Dataset):
    def __init__(self, split):
        super().__init__()
        yarn = Yarn()
        found = []
        for chart in filter(lambda c: c.split == split, charts()):
            rows = chart.rows()
            for n in range(SEEN, len(rows), EVERY[split]):
                found.append((rows[n - SEEN:n], yarn.facts(chart, n), rows[n]))
        order = np.random.RandomState(8).permutation(len(found)) if split == "train" else range(len(found))
        self.found = [found[i] for i in order]

    def __getitem__(self, k):
        return self.found[k]

    def __len__(self):
        return len(self.found)


def make_loader(split):
    windows = Windows(split)
    return DataLoader(windows, batch_sampler=BatchSampler(windows, shuffle=False, batch_size=PER_BATCH))
