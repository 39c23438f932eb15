import os
from collections import namedtuple
from functools import lru_cache

import numpy as np
import paddle

from .constants import BATCH, CUTOFF, DATA, ELEMENTS, TURN_SEED

Molecule = namedtuple("Molecule", "kinds places forces energy")


def parse(block, comment):
    symbols = [line.split()[0] for line in block]
    numbers = np.array([line.split()[1:] for line in block], dtype="float64")
    for word in comment.split():
        if word.startswith("energy="):
            energy = float(word[len("energy="):])
    kinds = np.array([ELEMENTS[s] for s in symbols], dtype="int64")
    return Molecule(kinds, numbers[:, :3], numbers[:, 3:], energy)


def molecules_in(path):
    with open(path) as f:
        lines = f.read().splitlines()
    found, at = [], 0
    while at < len(lines) and lines[at].strip():
        count = int(lines[at])
        found.append(parse(lines[at + 2 : at + 2 + count], lines[at + 1]))
        at += 2 + count
    return found


@lru_cache(maxsize=None)
def load(split):
    return molecules_in(os.path.join(DATA, split + ".xyz"))


@lru_cache(maxsize=None)
def scale():
    energies = np.array([m.energy / len(m.kinds) for m in load("train")])
    return float(np.mean(energies)), float(np.std(energies, ddof=1))


def turn(rng):
    """A rotation drawn evenly from all rotations."""
    q, r = np.linalg.qr(rng.standard_normal((3, 3)))
    q *= np.sign(np.diagonal(r))
    if np.linalg.det(q) < 0:
        q[:, 0] *= -1
    return q


def connect(places):
    apart = places[:, None, :] - places[None, :, :]
    near = (apart ** 2).sum(-1) < CUTOFF ** 2
    np.fill_diagonal(near, False)
    to, source = np.nonzero(near)
    return np.stack([source, to]).astype("int64"), apart[to, source]


def as_graph(kinds, places):
    edges, vectors = connect(places)
    return {"species": kinds, "edges": edges, "vectors": vectors.astype("float32")}


class Molecules(paddle.io.Dataset):
    def __init__(self, split):
        self.molecules = load(split)
        self.turning = split == "train"

    def __len__(self):
        return len(self.molecules)

    def __getitem__(self, i):
        kinds, places, forces, energy = self.molecules[i]
        if self.turning:
            matrix = turn(np.random.default_rng(TURN_SEED + 1000 * i))
            places, forces = places @ matrix.T, forces @ matrix.T
        mean, std = scale()
        return {
            **as_graph(kinds, places),
            "energy": np.float32((energy - len(kinds) * mean) / std),
            "forces": np.float32(forces / std),
        }


def merge(graphs):
    sizes = np.array([len(g["species"]) for g in graphs], dtype="int64")
    first = sizes.cumsum() - sizes
    edges = [g["edges"] + shift for g, shift in zip(graphs, first)]
    merged = {
        "species": np.concatenate([g["species"] for g in graphs]),
        "edges": np.concatenate(edges, axis=1),
        "vectors": np.concatenate([g["vectors"] for g in graphs]),
        "graph": np.repeat(np.arange(len(graphs)), sizes),
        "sizes": sizes,
    }
    return {name: paddle.to_tensor(value) for name, value in merged.items()}


def merge_with_labels(samples):
    graph = merge(samples)
    labels = {
        "energy": paddle.to_tensor(np.array([s["energy"] for s in samples])),
        "forces": paddle.to_tensor(np.concatenate([s["forces"] for s in samples])),
        "sizes": graph["sizes"],
    }
    return graph, labels


def loader(split):
    return paddle.io.DataLoader(
        Molecules(split),
        batch_size=BATCH,
        shuffle=(split == "train"),
        collate_fn=merge_with_labels,
    )
