"""Knowledge graph in memory. Relation r + n_rel is the inverse of r."""
import collections
import os

import numpy as np

DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data")


def read_tsv(split):
    with open(os.path.join(DATA, split + ".tsv")) as fh:
        return [line.rstrip("\n").split("\t") for line in fh]


class Graph:
    def __init__(self):
        raw = {s: read_tsv(s) for s in ("train", "val", "extra")}
        everything = raw["train"] + raw["val"] + raw["extra"]
        self.entities = sorted({h for h, _, _ in everything} | {t for _, _, t in everything})
        self.relations = sorted({r for _, r, _ in everything})
        self.ent = {e: i for i, e in enumerate(self.entities)}
        self.rel = {r: i for i, r in enumerate(self.relations)}
        self.n_ent, self.n_rel = len(self.entities), len(self.relations)
        self.triples = {s: self.both_ways(rows) for s, rows in raw.items()}
        self.known = collections.defaultdict(set)          # (h, r) -> every true tail, of all splits
        for rows in self.triples.values():
            for h, r, t in rows:
                self.known[h, r].add(t)
        self.range = collections.defaultdict(set)          # r -> tails seen in training
        self.count = collections.Counter()                 # (h, r) in training
        for h, r, t in self.triples["train"]:
            self.range[r].add(t)
            self.count[h, r] += 1

    def both_ways(self, rows):
        ids = [(self.ent[h], self.rel[r], self.ent[t]) for h, r, t in rows]
        return [x for h, r, t in ids for x in ((h, r, t), (t, r + self.n_rel, h))]

    def subsampling_weight(self, h, r, t):
        inverse = (r + self.n_rel) % (2 * self.n_rel)
        return (4 + self.count[h, r] + self.count[t, inverse]) ** -0.5

    def edges(self):
        """Edges of training, with 1 / (number of edges of this relation that end in the node)."""
        h, r, t = np.array(self.triples["train"]).T
        degree = collections.Counter(zip(t.tolist(), r.tolist()))
        norm = np.array([1.0 / degree[x] for x in zip(t.tolist(), r.tolist())], dtype=np.float32)
        return h, r, t, norm


GRAPH = Graph()
