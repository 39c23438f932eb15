"""From crossings.json to arrays of fixed size."""
import json

import numpy as np
from paddle.io import DataLoader, Dataset

N_FEATURES = 9


def traits(arm):
    quarter = np.asarray(arm["counts"], dtype=np.float64)
    cap = float(arm["saturation"])
    hourly = quarter.sum()
    return np.array([
        hourly / cap,
        quarter.max() * 4 / cap,
        (quarter[-1] - quarter[0]) / max(hourly, 1.0),
        quarter.std() / 100,
        cap / 1800,
        arm["left"],
        arm["right"],
        np.log1p(arm["walkers"]),
        arm["buses"] ** 0.5,
    ])


class Scaler:
    """Mean and deviation over all arms of the training crossings."""

    def __init__(self, crossings):
        arms = np.stack([traits(arm) for c in crossings for arm in c["approaches"]])
        self.centre = arms.mean(0)
        self.spread = arms.std(0, ddof=1)

    def __call__(self, crossing):
        return np.stack([(traits(a) - self.centre) / self.spread for a in crossing["approaches"]])


def padded(values, shape, fill=0.0):
    box = np.full(shape, fill, dtype="float32")
    values = np.asarray(values)
    box[tuple(slice(n) for n in values.shape)] = values
    return box


def to_arrays(crossing, scaler, slots, stages):
    arms = crossing["approaches"]
    design = [max(a["counts"]) * 4 / 3600 for a in arms]
    return dict(
        features=padded(scaler(crossing), (slots, N_FEATURES)),
        flow=padded(design, (slots,)),
        saturation=padded([a["saturation"] / 3600 for a in arms], (slots,), fill=1.0),
        served=padded(crossing["phases"], (stages, slots)),
        conflict=padded(crossing["conflict"], (slots, slots)),
        min_green=padded(crossing["min_green"], (stages,)),
        present=padded(np.ones(len(arms)), (slots,)),
    )


def plan_vector(plan, stages):
    angle = 2 * np.pi * plan["offset"] / plan["cycle"]
    tail = np.array([plan["cycle"], np.cos(angle), np.sin(angle)])
    return np.concatenate([padded(plan["greens"], (stages,)), tail]).astype("float32")


class JunctionTable(Dataset):
    def __init__(self, split, tables):
        super().__init__()
        everything = json.load(open(tables["source"]))
        self.scaler = Scaler([c for c in everything if c["split"] == "train"])
        self.kept = [c for c in everything if c["split"] == split]
        self.slots, self.stages = tables["slots"], tables["stages"]

    def __len__(self):
        return len(self.kept)

    def __getitem__(self, k):
        c = self.kept[k]
        return {**to_arrays(c, self.scaler, self.slots, self.stages), "target": plan_vector(c["plan"], self.stages)}


def batches(split, tables):
    table = JunctionTable(split, tables)
    return DataLoader(table, batch_size=tables["rows_at_once"], shuffle=False, drop_last=(split == "train"), num_workers=0)
