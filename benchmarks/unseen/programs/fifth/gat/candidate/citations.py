import os

import numpy as np
from paddle.io import Dataset

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
NAMES = ["bio", "cs", "math"]


def table(name):
    return np.genfromtxt(os.path.join(FOLDER, name), delimiter=",", names=True, dtype=None, encoding="utf-8")


def read_graph():
    nodes, edges = table("nodes.csv"), table("edges.csv")
    n = len(nodes)
    words = np.stack([nodes[f"f{k}"] for k in range(6)], axis=1).astype("float64")
    mass = words.sum(axis=1, keepdims=True)
    words = np.divide(words, mass, out=np.zeros_like(words), where=mass > 0)
    side = np.stack([nodes["year"], nodes["len"]], axis=1).astype("float64")
    side = (side - side.mean(axis=0)) / side.std(axis=0)
    where = {name: k for k, name in enumerate(nodes["id"])}
    weight = np.zeros((n, n))
    for a, b, w in edges:
        a, b = where[a], where[b]
        weight[a, b] = weight[b, a] = w
    np.fill_diagonal(weight, 1.0)
    source, target = np.nonzero(weight)
    label = np.array([NAMES.index(t) if t in NAMES else -1 for t in nodes["label"]])
    return {"x": np.hstack([words, side]).astype("float32"), "y": label, "train": nodes["split"] == "train", "adj": weight > 0,
            "edges": np.stack([source, target]).astype("int64"), "weight": weight[source, target].astype("float32")}


class Neighbourhoods(Dataset):
    def __init__(self, hops=2):
        super().__init__()
        self.graph, self.hops = read_graph(), hops

    def __len__(self):
        return self.graph["y"].shape[0]

    def __getitem__(self, centre):
        g = self.graph
        inside = np.zeros(len(self), dtype=bool)
        inside[centre] = True
        for _ in range(self.hops):
            inside |= g["adj"][:, inside].any(axis=1)
        members = np.flatnonzero(inside)
        members = np.concatenate([[centre], members[members != centre]])
        rank = np.full(len(self), -1)
        rank[members] = np.arange(members.size)
        keep = inside[g["edges"][0]] & inside[g["edges"][1]]
        y = np.where(g["train"], g["y"], -1)[members]
        return {"x": g["x"][members], "edge_index": rank[g["edges"][:, keep]].astype("int64"), "edge_weight": g["weight"][keep], "y": y}
