"""Windows of notes with padding."""
import json

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from . import hymn
from .pitch import split_pitch

SIZE, HOP = 18, 9
IGNORE = -100
NO_CLASS, NO_OCTAVE = 12, 9


def arrays(notes, meter, size=SIZE):
    cls = np.full(size, NO_CLASS, dtype=np.int64)
    octave = np.full(size, NO_OCTAVE, dtype=np.int64)
    pitch = np.zeros(size, dtype=np.float32)
    onset = np.zeros(size, dtype=np.float32)
    length = np.ones(size, dtype=np.float32)
    beat = np.zeros(size, dtype=np.float32)
    real = np.zeros(size, dtype=np.float32)
    start = notes[0].onset
    for k, n in enumerate(notes):
        cls[k], octave[k] = split_pitch(n.pitch)
        pitch[k] = n.pitch
        onset[k] = n.onset - start
        length[k] = n.length
        beat[k] = (n.onset % meter) / meter
        real[k] = 1.0
    return cls, octave, pitch, onset, length, beat, real


def targets(notes, size=SIZE):
    """0 is nobody, k + 1 the note k of the window; -100 for padding."""
    out = np.full(size, IGNORE, dtype=np.int64)
    out[: len(notes)] = [k + 1 for k in hymn.previous(notes)]
    return out


def cut(notes, size=SIZE, hop=HOP):
    for first in range(0, max(len(notes) - size, 0) + hop, hop):
        piece = notes[first : first + size]
        if len(piece) >= 4:
            yield piece


class Windows(Dataset):
    def __init__(self, split):
        with open("data/splits.json") as f:
            names = json.load(f)[split]
        self.items = []
        for number, name in enumerate(names):
            notes, meter = hymn.load(f"data/{name}.json")
            if split == "train":
                # each training hymn in a key of its own
                for n in notes:
                    n.pitch += (number % 3 - 1) * 2
            self.items += [(piece, meter) for piece in cut(notes)]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        notes, meter = self.items[index]
        sample = arrays(notes, meter) + (targets(notes),)
        return tuple(torch.from_numpy(a) for a in sample)


def loader(split):
    return DataLoader(Windows(split), batch_size=4, shuffle=False)
