import numpy as np
from paddle.io import Dataset


def generate(number):
    rng = np.random.default_rng(1000 + number)
    nodes = int(rng.integers(4, 9))
    features = rng.standard_normal((nodes, 5)).astype("float32")
    upper = np.triu(rng.random((nodes, nodes)) < 0.4, k=1)
    a, b = np.where(upper)
    kind = rng.integers(0, 3, len(a))
    edges = np.array([np.append(a, b), np.append(b, a)], dtype="int64")
    target = np.array([features.sum(), edges.shape[1]], dtype="float32")
    return features, edges, np.tile(kind, 2).astype("int64"), target


class GraphSet(Dataset):
    ranges = {"train": (0, 16), "val": (16, 28)}

    def __init__(self, split):
        first, end = self.ranges[split]
        self.graphs = [generate(k) for k in range(first, end)]

    def __len__(self):
        return len(self.graphs)

    def __getitem__(self, i):
        features, edges, kind, target = self.graphs[i]
        degree = np.zeros(len(features))
        np.add.at(degree, edges[1], 1)
        x = np.column_stack([features, np.log(1 + degree)])
        length = np.sqrt((x * x).sum(axis=1, keepdims=True))
        x = np.where(length > 2.5, x * (2.5 / length), x)
        return {"x": x.astype("float32"), "edges": edges, "kind": kind, "y": target}


def join(graphs):
    sizes = np.array([len(g["x"]) for g in graphs])
    starts = np.cumsum(sizes) - sizes
    return {
        "x": np.concatenate([g["x"] for g in graphs]),
        "edges": np.concatenate([g["edges"] + s for g, s in zip(graphs, starts)], axis=1),
        "kind": np.concatenate([g["kind"] for g in graphs]),
        "batch": np.repeat(np.arange(len(graphs)), sizes),
        "y": np.stack([g["y"] for g in graphs]),
    }
