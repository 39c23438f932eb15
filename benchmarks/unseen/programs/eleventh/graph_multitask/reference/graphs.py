"""Graphs from a JSON file, and batches of them: one large graph whose parts do not touch."""
import json
from functools import lru_cache

import numpy as np
import torch

PATH = "data/graphs.json"


@lru_cache(maxsize=None)
def read(path=PATH):
    with open(path) as handle:
        return json.load(handle)


def part(split):
    return [g for g in read() if g["split"] == split]


@lru_cache(maxsize=None)
def statistics():
    """Mean and deviation of both properties, class weights, mean log degree: of the training part."""
    train = part("train")
    props = np.array([[np.nan if v is None else v for v in g["props"]] for g in train])
    kinds = np.array([g["kind"] for g in train if g["kind"] is not None])
    counts = np.bincount(kinds, minlength=3)
    degrees = np.concatenate([degree(g) for g in train])
    return {
        "mean": np.nanmean(props, 0),
        "std": np.nanstd(props, 0),
        "weights": counts.sum() / (3 * counts),
        "log_degree": float(np.log(degrees + 1).mean()),
    }


def degree(graph):
    ends = [v for bond in graph["bonds"] for v in bond[:2]]
    return np.bincount(np.array(ends, dtype=np.int64), minlength=len(graph["atoms"]))


class GraphSet(torch.utils.data.Dataset):
    def __init__(self, split):
        self.graphs = part(split)
        self.stats = statistics()

    def __len__(self):
        return len(self.graphs)

    def __getitem__(self, index):
        g = self.graphs[index]
        bonds = g["bonds"]
        source = [b[0] for b in bonds] + [b[1] for b in bonds]
        target = [b[1] for b in bonds] + [b[0] for b in bonds]
        numbers = np.stack([np.array(g["charge"]) / 0.6, np.log(degree(g) + 1) / self.stats["log_degree"]], 1)
        known = np.array([v is not None for v in g["props"]])
        props = (np.array([0.0 if v is None else v for v in g["props"]]) - self.stats["mean"]) / self.stats["std"]
        return {
            "atoms": torch.tensor(g["atoms"]),
            "numbers": torch.tensor(numbers, dtype=torch.float32),
            "edges": torch.tensor([source, target]),
            "bond": torch.tensor([b[2] for b in bonds] * 2),
            "length": torch.tensor([b[3] for b in bonds] * 2, dtype=torch.float32),
            "labels": {
                "kind": torch.tensor(-1 if g["kind"] is None else g["kind"]),
                "props": torch.tensor(props * known, dtype=torch.float32),
                "known": torch.tensor(known, dtype=torch.float32),
            },
        }


def collate(samples):
    sizes = torch.tensor([len(s["atoms"]) for s in samples])
    shift = sizes.cumsum(0) - sizes
    batch = {k: torch.cat([s[k] for s in samples]) for k in ("atoms", "numbers", "bond", "length")}
    batch["edges"] = torch.cat([s["edges"] + o for s, o in zip(samples, shift)], 1)
    batch["graph"] = torch.repeat_interleave(torch.arange(len(samples)), sizes)
    batch["labels"] = {k: torch.stack([s["labels"][k] for s in samples]) for k in samples[0]["labels"]}
    return batch


def loader(split, size=8):
    return torch.utils.data.DataLoader(GraphSet(split), batch_size=size, collate_fn=collate, drop_last=split == "train")
