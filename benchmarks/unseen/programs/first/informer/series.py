import numpy as np
from paddle.io import Dataset


class Window(Dataset):
    length, context, horizon = 24, 8, 6

    def __init__(self, split):
        time = np.arange(240)
        noise = np.random.RandomState(9).randn(240, 3)
        values = np.column_stack([np.sin(time / 5), 2 * np.cos(time / 11), time / 100]) + noise / 10
        cut = int(len(time) * 0.7)
        train = values[:cut]
        values = (values - train.mean(axis=0)) / train.std(axis=0)
        stamps = np.column_stack([time % 24 / 23, time // 24 % 7 / 6]) - 0.5
        first, end = (0, cut) if split == "train" else (cut - self.length, 240)
        self.values = values[first:end].astype("float32")
        self.stamps = stamps[first:end].astype("float32")

    def __len__(self):
        return len(self.values) - self.length - self.horizon + 1

    def __getitem__(self, i):
        now = i + self.length
        past, future = slice(i, now), slice(now, now + self.horizon)
        seen = self.values[now - self.context : now]
        start = np.pad(seen, ((0, self.horizon), (0, 0)))
        return (
            self.values[past],
            self.stamps[past],
            start,
            self.stamps[now - self.context : now + self.horizon],
            self.values[future],
        )
