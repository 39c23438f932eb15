"""Crossings as padded arrays, one sample a crossing."""
import json

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

FEATURES = 9


def read_rows(path, split=None):
    with open(path) as f:
        rows = json.load(f)
    if split is None:
        return rows
    return [r for r in rows if r["split"] == split]


def describe(approach):
    """Nine numbers of an approach; counts are of quarter hours."""
    counts = approach["counts"]
    return [
        sum(counts) / approach["saturation"],
        4.0 * max(counts) / approach["saturation"],
        (counts[-1] - counts[0]) / max(sum(counts), 1),
        float(np.std(counts)) / 100.0,
        approach["saturation"] / 1800.0,
        approach["left"],
        approach["right"],
        np.log1p(approach["walkers"]),
        np.sqrt(approach["buses"]),
    ]


def statistics(rows):
    table = np.array([describe(a) for r in rows for a in r["approaches"]])
    return table.mean(axis=0), table.std(axis=0, ddof=1)


def pack(row, mean, std, cfg):
    most_a, most_p = cfg["most_approaches"], cfg["most_phases"]
    n_a, n_p = len(row["approaches"]), len(row["phases"])
    features = np.zeros((most_a, FEATURES), dtype=np.float32)
    features[:n_a] = (np.array([describe(a) for a in row["approaches"]]) - mean) / std
    flow = np.zeros(most_a, dtype=np.float32)
    saturation = np.ones(most_a, dtype=np.float32)
    for k, a in enumerate(row["approaches"]):
        # the design hour: four times the busiest quarter
        flow[k] = 4.0 * max(a["counts"]) / 3600.0
        saturation[k] = a["saturation"] / 3600.0
    served = np.zeros((most_p, most_a), dtype=np.float32)
    served[:n_p, :n_a] = row["phases"]
    conflict = np.zeros((most_a, most_a), dtype=np.float32)
    conflict[:n_a, :n_a] = row["conflict"]
    min_green = np.zeros(most_p, dtype=np.float32)
    min_green[:n_p] = row["min_green"]
    present = (np.arange(most_a) < n_a).astype(np.float32)
    return {
        "features": features, "flow": flow, "saturation": saturation, "served": served,
        "conflict": conflict, "min_green": min_green, "present": present,
    }


def answer(row, cfg):
    """greens of the phases, the cycle, and the offset as a point of the circle"""
    plan = row["plan"]
    out = np.zeros(cfg["most_phases"] + 3, dtype=np.float32)
    out[: len(plan["greens"])] = plan["greens"]
    turn = 2.0 * np.pi * plan["offset"] / plan["cycle"]
    out[-3:] = plan["cycle"], np.cos(turn), np.sin(turn)
    return out


class Crossings(Dataset):
    def __init__(self, split, cfg):
        self.cfg = cfg
        self.rows = read_rows(cfg["file"], split)
        self.mean, self.std = statistics(read_rows(cfg["file"], "train"))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        sample = pack(self.rows[index], self.mean, self.std, self.cfg)
        sample["target"] = answer(self.rows[index], self.cfg)
        return {k: torch.from_numpy(v) for k, v in sample.items()}


def loader(split, cfg):
    return DataLoader(Crossings(split, cfg), batch_size=cfg["batch"], shuffle=False, drop_last=split == "train")
