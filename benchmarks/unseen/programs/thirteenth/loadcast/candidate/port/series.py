import datetime
from collections import defaultdict
from functools import lru_cache
from pathlib import Path

import numpy as np
from paddle.io import DataLoader, Dataset

from .options import NET, STATIONS, TRAIN, WINDOW

DEMAND = Path(__file__).resolve().parents[2] / "data" / "demand.csv"
COLUMNS = ("hour", "weekday", "temperature", "demand")


def load_csv(path):
    """{station: array of [hours, columns]}"""
    rows = defaultdict(list)
    lines = Path(path).read_text().splitlines()
    header = lines[0].split(",")
    for line in lines[1:]:
        cells = dict(zip(header, line.split(",")))
        when = datetime.datetime.strptime(cells["time"], "%Y-%m-%dT%H:%M")
        demand = float(cells["demand"] or "nan")
        rows[cells["station"]].append((when.hour, when.weekday(), float(cells["temperature"]), demand))
    return {station: np.array(r, "float64") for station, r in rows.items()}


@lru_cache(maxsize=None)
def statistics():
    """Of the hours of training: mean and deviation of log demand a station, range of the temperature."""
    table = load_csv(DEMAND)
    fitted = np.stack([table[s][: WINDOW["train_hours"]] for s in STATIONS])
    logs = np.log1p(fitted[:, :, 3])
    temperature = fitted[:, :, 2]
    return np.nanmean(logs, axis=1), np.nanstd(logs, axis=1), temperature.min(), temperature.max()


def to_demand(scaled, series):
    mean, std, _, _ = statistics()
    return np.exp(scaled * std[series] + mean[series]) - 1.0


def scale(sample):
    mean, std, low, high = statistics()
    k = sample["series"]
    demand = (np.log1p(sample["demand"]) - mean[k]) / std[k]
    observed = np.isfinite(demand)
    demand = np.nan_to_num(demand, nan=0.0)
    temperature = (sample["temperature"] - low) / (high - low) * 2 - 1
    return dict(sample, demand=demand, observed=observed.astype("float64"), temperature=temperature)


def calendar(sample):
    columns = []
    for name, period in (("hour", 24), ("weekday", 7)):
        angle = 2 * np.pi * sample[name] / period
        columns += [np.sin(angle), np.cos(angle)]
    columns.append(sample["temperature"])
    return dict(sample, known=np.stack(columns, axis=1))


def hide_hours(sample):
    past = WINDOW["past"]
    demand, observed = sample["demand"].copy(), sample["observed"].copy()
    hidden = np.flatnonzero(np.random.rand(past) < WINDOW["mask_rate"])
    demand[hidden] = 0.0
    observed[hidden] = 0.0
    return dict(sample, demand=demand, observed=observed)


def pack(sample):
    past = WINDOW["past"]
    values = np.stack([sample["demand"], sample["observed"]], axis=1).astype("float32")
    draw = np.random.RandomState(1000 + sample["index"]).randn(NET["latent"])
    return {
        "past": values[:past],
        "known": sample["known"].astype("float32"),
        "series": np.array(sample["series"], "int64"),
        "future": values[past:, 0],
        "noise": draw.astype("float32"),
        "labels": values[past:],
    }


def steps(split):
    middle = [hide_hours] if split == "train" else []
    return [scale, calendar, *middle, pack]


def starts(split, hours):
    total = WINDOW["past"] + WINDOW["horizon"]
    first, last = (0, WINDOW["train_hours"]) if split == "train" else (WINDOW["train_hours"] - WINDOW["past"], hours)
    return np.arange(first, last - total + 1, WINDOW["stride"])


class WindowSet(Dataset):
    def __init__(self, split):
        super().__init__()
        self.table = load_csv(DEMAND)
        self.transforms = steps(split)
        self.starts = starts(split, len(self.table[STATIONS[0]]))

    def __len__(self):
        return len(STATIONS) * len(self.starts)

    def __getitem__(self, i):
        series, k = divmod(i, len(self.starts))
        begin = int(self.starts[k])
        rows = self.table[STATIONS[series]][begin : begin + WINDOW["past"] + WINDOW["horizon"]]
        sample = {name: rows[:, c] for c, name in enumerate(COLUMNS)}
        sample.update(series=series, index=i)
        for step in self.transforms:
            sample = step(sample)
        return sample


def make_loader(split):
    return DataLoader(WindowSet(split), batch_size=TRAIN["batch_size"], shuffle=split == "train", drop_last=False)
