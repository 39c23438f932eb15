import json
import os

import numpy as np

from .settings import ROOT


class Taxonomy:
    """The labels as two matrices: `closure[i, a]` where a is i or above it, `edges[p, c]` for parent and child."""

    def __init__(self, file="labels.json"):
        with open(os.path.join(ROOT, file)) as f:
            nodes = json.load(f)
        self.labels = [n["name"] for n in nodes]
        self.position = {label: k for k, label in enumerate(self.labels)}
        n = len(nodes)
        self.edges = np.zeros((n, n), dtype="float32")
        self.pairs = []
        for k, node in enumerate(nodes):
            if node["parent"] is not None:
                above = self.position[node["parent"]]
                self.edges[above, k] = 1
                self.pairs.append((k, above))
        reach = np.eye(n) + self.edges.T
        for _ in range(n.bit_length()):
            reach = ((reach @ reach) > 0).astype(float)
        self.closure = reach > 0

    @property
    def size(self):
        return len(self.labels)

    def multi_hot(self, names):
        return self.closure[[self.position[x] for x in names]].any(axis=0).astype("float32")


taxonomy = Taxonomy()
