"""Data set of windows over hymns."""
import json

import numpy as np
from paddle.io import DataLoader, Dataset

from . import score

WIDTH, HOP, PAD_LABEL = 18, 9, -100
CLASS_PAD, OCTAVE_PAD = 12, 9


def widen(values, dtype, fill):
    out = np.full(WIDTH, fill, dtype)
    out[: len(values)] = values
    return out


def encode(table, meter):
    onset, length, pitch = table.T
    semitone = pitch.astype("int64")
    return [
        widen(semitone % 12, "int64", CLASS_PAD),
        widen(semitone // 12 - 1, "int64", OCTAVE_PAD),
        widen(pitch, "float32", 0),
        widen(onset - onset[0], "float32", 0),
        widen(length, "float32", 1),
        widen(np.mod(onset, meter) / meter, "float32", 0),
        widen(np.ones(len(table)), "float32", 0),
    ]


class Sheets(Dataset):
    KEYS = (-2, 0, 2)

    def __init__(self, split):
        super().__init__()
        self.pieces = []
        for n, name in enumerate(json.load(open("data/splits.json"))[split]):
            key = self.KEYS[n % 3] if split == "train" else 0
            table, voices, meter = score.open_hymn(f"data/{name}.json", key)
            for part in score.slices(len(table), WIDTH, HOP):
                self.pieces.append((table[part], voices[part], meter))

    def __getitem__(self, k):
        table, voices, meter = self.pieces[k]
        before = np.array(score.predecessors(voices)) + 1
        return (*encode(table, meter), widen(before, "int64", PAD_LABEL))

    def __len__(self):
        return len(self.pieces)


def feed(split):
    return DataLoader(Sheets(split), batch_size=4, shuffle=False, drop_last=False)
