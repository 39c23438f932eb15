import json
from pathlib import Path

import numpy as np
from torch.utils.data import Dataset

from .calls import INDEX, START, encode
from .cards import parse_hand
from .legality import legal_calls
from .table import player, relative_seats, vulnerability

FILE = Path(__file__).resolve().parents[2] / "data" / "positions.json"


def to_sample(position):
    auction = encode(position["auction"])
    return {
        "suits": parse_hand(position["hand"]),
        "calls": np.array([START] + auction, np.int64),
        "seats": np.array([0] + relative_seats(position["dealer"], auction), np.int64),
        "vul": vulnerability(position["vul"], player(position["dealer"], auction)),
        "legal": legal_calls(auction),
    }


class Positions(Dataset):
    def __init__(self, split):
        with open(FILE) as handle:
            self.rows = [r for r in json.load(handle) if r["split"] == split]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row = self.rows[i]
        return {**to_sample(row), "bid": INDEX[row["bid"]], "tricks": row["tricks"]}
