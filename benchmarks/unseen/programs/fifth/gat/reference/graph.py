import csv
import os

import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
CLASSES = {"bio": 0, "cs": 1, "math": 2, "?": -1}


def load(folder=os.path.join(HERE, "data")):
    with open(os.path.join(folder, "nodes.csv")) as fh:
        nodes = list(csv.DictReader(fh))
    index = {row["id"]: i for i, row in enumerate(nodes)}
    feats = np.array([[float(row[f"f{k}"]) for k in range(6)] for row in nodes], dtype=np.float64)
    feats = feats / np.maximum(feats.sum(1, keepdims=True), 1e-12)          # row-normalise, empty rows stay empty
    extra = np.array([[float(row["year"]), float(row["len"])] for row in nodes])
    extra = (extra - extra.mean(0)) / extra.std(0)
    x = np.concatenate([feats, extra], 1).astype(np.float32)
    y = np.array([CLASSES[row["label"]] for row in nodes])
    train = np.array([row["split"] == "train" for row in nodes])
    pairs = {}
    with open(os.path.join(folder, "edges.csv")) as fh:
        for row in csv.DictReader(fh):
            a, b, w = index[row["src"]], index[row["dst"]], float(row["weight"])
            if a != b:
                pairs[(a, b)] = pairs[(b, a)] = w
    for i in range(len(nodes)):
        pairs[(i, i)] = 1.0
    keys = sorted(pairs)
    return {"x": x, "y": y, "train": train, "edge_index": np.array(keys, dtype=np.int64).T,
            "edge_weight": np.array([pairs[k] for k in keys], dtype=np.float32)}


class EgoNets(torch.utils.data.Dataset):
    """the two-hop neighbourhood of every node, relabelled, centre first"""

    def __init__(self, hops=2):
        self.g, self.hops = load(), hops

    def __len__(self):
        return len(self.g["y"])

    def __getitem__(self, i):
        src, dst = self.g["edge_index"]
        seen = {i}
        for _ in range(self.hops):
            seen |= {int(s) for s, d in zip(src, dst) if int(d) in seen}
        order = [i] + sorted(seen - {i})
        pos = {n: k for k, n in enumerate(order)}
        keep = [k for k in range(len(src)) if int(src[k]) in pos and int(dst[k]) in pos]
        ei = np.array([[pos[int(src[k])], pos[int(dst[k])]] for k in keep], dtype=np.int64).T
        y = self.g["y"][order].copy()
        y[~self.g["train"][order]] = -1
        return {"x": self.g["x"][order], "edge_index": ei, "edge_weight": self.g["edge_weight"][keep], "y": y}
