import csv
import datetime
import os

import numpy as np
from paddle.io import BatchSampler, DataLoader, Dataset

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tables", "station.csv")


def number(cell, before):
    """What is missing is what was before it."""
    value = float(cell or "nan")
    return before if value != value else value


def load_table(path=TABLE):
    with open(path, newline="") as f:
        lines = list(csv.DictReader(f))
    names = [name for name in lines[0] if name != "date"]
    table = np.empty((len(lines), len(names)))
    last = [float("nan")] * len(names)
    for i, line in enumerate(lines):
        last = [number(line[name], before) for name, before in zip(names, last)]
        table[i] = last
    return [datetime.datetime.fromisoformat(line["date"]) for line in lines], table


def calendar_of(when):
    year_day = when.date().toordinal() - datetime.date(when.year, 1, 1).toordinal()
    shares = [when.hour / 23.0, when.weekday() / 6.0, (when.day - 1) / 30.0, year_day / 365.0]
    return [share - 0.5 for share in shares]


class Windows(Dataset):
    """Windows of one part of the table: past, calendar of the past, future."""

    def __init__(self, part, past=48, future=12, train_share=0.6, test_share=0.2):
        super().__init__()
        dates, table = load_table()
        total = len(table)
        train, test = int(total * train_share), int(total * test_share)
        known = table[:train]
        table = (table - np.mean(known, axis=0)) / np.std(known, axis=0)
        ends = {"train": train, "val": total - test, "test": total}
        begins = {"train": 0, "val": train - past, "test": total - test - past}
        rows = slice(begins[part], ends[part])
        self.table = table[rows].astype("float32")
        self.calendar = np.array([calendar_of(date) for date in dates[rows]], dtype="float32")
        self.past, self.future = past, future

    def __len__(self):
        return len(self.table) - self.past - self.future + 1

    def __getitem__(self, i):
        now = i + self.past
        return self.table[i:now], self.calendar[i:now], self.table[now : now + self.future]


def batches(part, size=16):
    windows = Windows(part)
    training = part == "train"
    sampler = BatchSampler(windows, shuffle=training, batch_size=size, drop_last=training)
    return DataLoader(windows, batch_sampler=sampler)
