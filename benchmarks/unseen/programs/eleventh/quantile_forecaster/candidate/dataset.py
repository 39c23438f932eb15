import numpy as np
import paddle


class SensorTable:
    """The whole table: scaled, with and without its holes, and the calendar."""

    def __init__(self, file, train_share):
        archive = np.load(file)
        table = archive["values"].astype("float64")
        self.rows = table.shape[0]
        fit = table[: int(self.rows * train_share)]
        self.scaled = (table - np.nanmean(fit, 0)) / np.nanstd(fit, 0)
        self.filled = self._carry_forward(self.scaled)
        clock = int(archive["start"]) + np.arange(self.rows)
        self.time = np.column_stack([clock % 24 / 23.0, clock // 24 % 7 / 6.0]) - 0.5

    @staticmethod
    def _carry_forward(table):
        known = ~np.isnan(table)
        last = np.where(known, np.arange(len(table))[:, None], -1)
        last = np.maximum.accumulate(last, axis=0)
        carried = np.take_along_axis(np.nan_to_num(table), np.maximum(last, 0), axis=0)
        return np.where(last >= 0, carried, 0.0)


class ForecastWindows(paddle.io.Dataset):
    def __init__(self, split, file, lookback, horizon, step, train_share, val_share, batch):
        super().__init__()
        self.table = SensorTable(file, train_share)
        n = self.table.rows
        edges = {
            "train": (0, int(n * train_share)),
            "val": (int(n * train_share) - lookback, int(n * val_share)),
            "test": (int(n * val_share) - lookback, n),
        }
        begin, end = edges[split]
        self.lookback, self.horizon = lookback, horizon
        self.origins = np.arange(begin + lookback, end - horizon + 1, step)

    def __len__(self):
        return len(self.origins)

    def __getitem__(self, i):
        t = self.origins[i]
        history = self.table.filled[t - self.lookback : t]
        future = slice(t, t + self.horizon)
        return tuple(a.astype("float32") for a in (history, self.table.time[future], self.table.scaled[future]))


def batches(split, options):
    windows = ForecastWindows(split, **options)
    return paddle.io.DataLoader(windows, batch_size=options["batch"], shuffle=False, drop_last=split == "train")
