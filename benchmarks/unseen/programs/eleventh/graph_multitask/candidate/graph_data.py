import json
import os

import numpy as np
from paddle.io import DataLoader, Dataset

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "settings.json")) as _f:
    CONF = json.load(_f)


class Molecule:
    """One record of the file as arrays."""

    def __init__(self, record):
        self.split = record["split"]
        self.atoms = np.asarray(record["atoms"], dtype="int64")
        self.charge = np.asarray(record["charge"], dtype="float64")
        bonds = np.asarray(record["bonds"], dtype="float64").reshape(-1, 4)
        ends = bonds[:, :2].astype("int64").T
        self.edges = np.concatenate([ends, ends[::-1]], axis=1)
        self.bond = np.tile(bonds[:, 2].astype("int64"), 2)
        self.length = np.tile(bonds[:, 3], 2)
        self.kind = -1 if record["kind"] is None else record["kind"]
        self.props = np.array(record["props"], dtype="float64")

    @property
    def log_degree(self):
        counts = np.zeros(self.atoms.size)
        np.add.at(counts, self.edges[1], 1.0)
        return np.log1p(counts)


class Corpus:
    def __init__(self, file):
        with open(file) as f:
            self.all = [Molecule(r) for r in json.load(f)]
        train = self["train"]
        props = np.stack([m.props for m in train])
        self.center, self.spread = np.nanmean(props, axis=0), np.nanstd(props, axis=0)
        kinds = [m.kind for m in train if m.kind >= 0]
        self.balance = np.array([len(kinds) / (3.0 * kinds.count(k)) for k in range(3)])
        self.degree_unit = np.concatenate([m.log_degree for m in train]).mean()

    def __getitem__(self, split):
        return [m for m in self.all if m.split == split]


CORPUS = Corpus(CONF["file"])


class Molecules(Dataset):
    def __init__(self, split):
        super().__init__()
        self.members = CORPUS[split]

    def __len__(self):
        return len(self.members)

    def __getitem__(self, i):
        m = self.members[i]
        numbers = np.column_stack([m.charge / CONF["charge_unit"], m.log_degree / CORPUS.degree_unit])
        known = np.isfinite(m.props)
        props = np.where(known, (m.props - CORPUS.center) / CORPUS.spread, 0.0)
        labels = {"kind": np.int64(m.kind), "props": props.astype("float32"), "known": known.astype("float32")}
        return {
            "atoms": m.atoms,
            "numbers": numbers.astype("float32"),
            "edges": m.edges,
            "bond": m.bond,
            "length": m.length.astype("float32"),
            "labels": labels,
        }


def join(members):
    first = np.cumsum([0] + [m["atoms"].size for m in members[:-1]])
    out = {key: np.concatenate([m[key] for m in members], axis=0) for key in ("atoms", "numbers", "bond", "length")}
    out["edges"] = np.concatenate([m["edges"] + k for m, k in zip(members, first)], axis=1)
    out["graph"] = np.concatenate([np.full(m["atoms"].size, k) for k, m in enumerate(members)])
    out["labels"] = {key: np.stack([m["labels"][key] for m in members]) for key in ("kind", "props", "known")}
    return out


def batches(split):
    return DataLoader(
        Molecules(split), batch_size=CONF["batch_size"], shuffle=False, drop_last=split == "train", collate_fn=join
    )
