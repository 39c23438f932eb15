"""json files of searched positions -> samples."""
import json
import os

import numpy as np
from paddle.io import BatchSampler, DataLoader, Dataset

from .board import Board

HERE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data")
ROOM = 24


def target_row(visits, wdl, plies):
    row = np.zeros(ROOM + 4)
    weight = np.power(np.array(visits, dtype="float64"), 1 / 1.3)
    row[: len(weight)] = weight / weight.sum()
    row[ROOM:-1] = wdl
    row[-1] = plies / 40
    return row.astype("float32")


class SearchedPositions(Dataset):
    def __init__(self, split):
        with open(os.path.join(HERE, split + ".json")) as f:
            self.entries = json.load(f)

    def __len__(self):
        return len(self.entries)

    def __getitem__(self, i):
        entry = self.entries[i]
        board = Board(entry["fen"])
        ranked = sorted(sorted(entry["visits"].items()), key=lambda item: item[1], reverse=True)[:ROOM]
        ucis, visits = zip(*ranked)
        moves, legal = board.moves(ucis, ROOM)
        return board.planes(), moves, legal, target_row(visits, entry["wdl"], entry["plies_left"])


def batches(split):
    positions = SearchedPositions(split)
    return DataLoader(positions, batch_sampler=BatchSampler(positions, shuffle=False, batch_size=6))
