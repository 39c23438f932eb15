import json
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from .moves import WIDTH, table
from .planes import encode

DATA = Path(__file__).resolve().parent.parent / "data"
TEMPERATURE = 1.3
HORIZON = 40.0


def most_visited(visits):
    """The WIDTH most visited moves; equal counts in alphabetical order."""
    return sorted(visits, key=lambda uci: (-visits[uci], uci))[:WIDTH]


def sharpen(counts):
    p = np.asarray(counts, dtype=np.float64) ** (1.0 / TEMPERATURE)
    return p / p.sum()


class Positions(Dataset):
    """Planes, moves, mask; and one row of targets: policy, win-draw-loss, plies left."""

    def __init__(self, split):
        self.records = json.loads((DATA / f"{split}.json").read_text())

    def __len__(self):
        return len(self.records)

    def __getitem__(self, i):
        record = self.records[i]
        planes, white = encode(record["fen"])
        kept = most_visited(record["visits"])
        moves, mask = table(kept, white)
        target = np.zeros(WIDTH + 4, dtype=np.float32)
        target[: len(kept)] = sharpen([record["visits"][uci] for uci in kept])
        target[WIDTH : WIDTH + 3] = record["wdl"]
        target[WIDTH + 3] = record["plies_left"] / HORIZON
        return tuple(torch.from_numpy(a) for a in (planes, moves, mask, target))


def loader(split):
    return DataLoader(Positions(split), batch_size=6, shuffle=False)
