"""Reads the exchange's days and makes padded batches for Paddle."""
import json
import pathlib

import numpy as np
import paddle
from paddle.io import BatchSampler, DataLoader, Dataset

IGNORED, NOBODY = -100, -1
FILL = {"trucks": 0.0, "truck_kinds": 0, "loads": 0.0, "load_kinds": 0, "labels": IGNORED}


def load_days(path):
    content = json.loads(pathlib.Path(path).read_text())
    return [content] if isinstance(content, dict) else content


def size_statistics(days):
    """Mean and sample deviation of (tons, m3) over trucks and loads alike."""
    sizes = [(item["tons"], item["m3"]) for day in days for side in ("trucks", "loads") for item in day[side]]
    sizes = np.array(sizes, dtype="float64")
    return sizes.mean(0), sizes.std(0, ddof=1)


def table(items, places, hour, statistics):
    """Rows of: the places in radians, scaled tons and m3, sine and cosine of the hour."""
    mean, deviation = statistics
    spots = np.radians([sum((item[place] for place in places), []) for item in items])
    sizes = (np.array([[item["tons"], item["m3"]] for item in items]) - mean) / deviation
    turn = np.array([item[hour] for item in items]) * (2 * np.pi / 24)
    return np.column_stack([spots, sizes, np.sin(turn), np.cos(turn)]).astype("float32")


class ExchangeDays(Dataset):
    def __init__(self, days, statistics, equipment):
        super().__init__()
        self.days, self.statistics, self.equipment = days, statistics, list(equipment)

    def codes(self, items):
        return np.array([self.equipment.index(item["kind"]) for item in items], dtype="int64")

    def __getitem__(self, number):
        trucks, loads = self.days[number]["trucks"], self.days[number]["loads"]
        carriers = [item.get("carrier") for item in loads]
        return dict(
            trucks=table(trucks, ["at"], "free", self.statistics),
            truck_kinds=self.codes(trucks),
            loads=table(loads, ["origin", "dest"], "pickup", self.statistics),
            load_kinds=self.codes(loads),
            labels=np.array([NOBODY if carrier is None else carrier for carrier in carriers], dtype="int64"),
        )

    def __len__(self):
        return len(self.days)


def to_batch(days):
    """Stack days of different sizes; masks say what is real."""
    batch = {}
    for field, fill in FILL.items():
        parts = [day[field] for day in days]
        longest = max(map(len, parts))
        widths = [[(0, longest - len(part))] + [(0, 0)] * (part.ndim - 1) for part in parts]
        batch[field] = np.stack([np.pad(part, w, constant_values=fill) for part, w in zip(parts, widths)])
    for side in ("truck", "load"):
        counts = np.array([len(day[side + "s"]) for day in days])
        batch[side + "_mask"] = np.arange(counts.max())[None, :] < counts[:, None]
    return {field: paddle.to_tensor(value) for field, value in batch.items()}


class BySize(BatchSampler):
    """Batches of days with similar numbers of loads."""

    def __init__(self, dataset, batch_size):
        super().__init__(dataset=dataset, batch_size=batch_size)
        counts = [len(day["loads"]) for day in dataset.days]
        self.order = np.argsort(counts, kind="stable").tolist()

    def __iter__(self):
        for start in range(0, len(self.order), self.batch_size):
            yield self.order[start:start + self.batch_size]


def exchange_days(options, which):
    """`which` is the name of a split, or the path of a file."""
    root = pathlib.Path(options["root"])
    training = load_days(root / "train.json")[:options["first_days"]]
    if which == "train":
        days = training
    else:
        days = load_days(which if str(which).endswith(".json") else root / f"{which}.json")
    return ExchangeDays(days, size_statistics(training), options["equipment"])


def batches(options, split):
    days = exchange_days(options, split)
    return DataLoader(days, batch_sampler=BySize(days, options["days_per_batch"]), collate_fn=to_batch)
