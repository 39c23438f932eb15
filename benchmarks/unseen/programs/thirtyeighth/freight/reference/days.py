"""Days of a freight exchange: the trucks that are free, the loads on offer, and who carried what."""
import json
import math
import os

import numpy as np
from torch.utils.data import DataLoader, Dataset

UNMATCHED = -1
PADDING = -100


def clock(hour):
    angle = 2.0 * math.pi * hour / 24.0
    return [math.sin(angle), math.cos(angle)]


def read_days(path):
    with open(path) as handle:
        days = json.load(handle)
    return days if isinstance(days, list) else [days]


class Scaler:
    """Mean and deviation of tons and cubic metres over all trucks and loads of the training days."""

    def __init__(self, days):
        rows = []
        for day in days:
            for thing in day["trucks"] + day["loads"]:
                rows.append([thing["tons"], thing["m3"]])
        rows = np.asarray(rows, dtype=np.float64)
        self.mean = rows.mean(axis=0)
        self.std = rows.std(axis=0, ddof=1)

    def __call__(self, thing):
        return list((np.array([thing["tons"], thing["m3"]]) - self.mean) / self.std)


class DaySet(Dataset):
    """One sample is one day.

    A truck has 6 numbers: latitude, longitude (radians), tons, m3, sine and cosine of the hour when it is free.
    A load has 8: latitude and longitude of the origin and of the destination, tons, m3, and its pickup hour.
    """

    def __init__(self, days, scaler, kinds):
        self.days = days
        self.scaler = scaler
        self.kinds = {name: number for number, name in enumerate(kinds)}

    def __len__(self):
        return len(self.days)

    def __getitem__(self, index):
        day = self.days[index]
        trucks, loads = [], []
        for truck in day["trucks"]:
            place = [math.radians(value) for value in truck["at"]]
            trucks.append(place + self.scaler(truck) + clock(truck["free"]))
        for load in day["loads"]:
            place = [math.radians(value) for value in load["origin"] + load["dest"]]
            loads.append(place + self.scaler(load) + clock(load["pickup"]))
        carriers = [UNMATCHED if load.get("carrier") is None else load["carrier"] for load in day["loads"]]
        return {
            "trucks": np.asarray(trucks, dtype=np.float32),
            "truck_kinds": np.asarray([self.kinds[truck["kind"]] for truck in day["trucks"]], dtype=np.int64),
            "loads": np.asarray(loads, dtype=np.float32),
            "load_kinds": np.asarray([self.kinds[load["kind"]] for load in day["loads"]], dtype=np.int64),
            "labels": np.asarray(carriers, dtype=np.int64),
        }


def pad(arrays, value):
    most = max(len(array) for array in arrays)
    shape = (len(arrays), most) + arrays[0].shape[1:]
    result = np.full(shape, value, dtype=arrays[0].dtype)
    for row, array in zip(result, arrays):
        row[: len(array)] = array
    return result


def collate(samples):
    import torch

    batch = {}
    for key, value in (("trucks", 0), ("truck_kinds", 0), ("loads", 0), ("load_kinds", 0), ("labels", PADDING)):
        batch[key] = torch.from_numpy(pad([sample[key] for sample in samples], value))
    for key in ("truck", "load"):
        present = [np.ones(len(sample[key + "s"]), dtype=bool) for sample in samples]
        batch[key + "_mask"] = torch.from_numpy(pad(present, False))
    return batch


class BucketSampler:
    """Days with about as many loads go into one batch; equal ones stay in the order of the calendar."""

    def __init__(self, days, size):
        order = sorted(range(len(days)), key=lambda index: (len(days[index]["loads"]), index))
        self.batches = [order[start: start + size] for start in range(0, len(order), size)]

    def __iter__(self):
        return iter(self.batches)

    def __len__(self):
        return len(self.batches)


def make_set(config, split=None, path=None):
    train = read_days(os.path.join(config["folder"], "train.json"))[: config["max_days"]]
    if path is not None:
        days = read_days(path)
    else:
        days = train if split == "train" else read_days(os.path.join(config["folder"], split + ".json"))
    return DaySet(days, Scaler(train), config["kinds"])


def make_loader(config, split):
    days = make_set(config, split)
    return DataLoader(days, batch_sampler=BucketSampler(days.days, config["batch_size"]), collate_fn=collate)
