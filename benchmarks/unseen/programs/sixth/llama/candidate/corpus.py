import os

import numpy as np
from paddle.io import DataLoader, Dataset

SKIP = -100
NEWLINE = 10


class Corpus(Dataset):
    def __init__(self, part, window=24, hop=20, unscored=4, held_out=0.15):
        with open(os.path.join(os.path.dirname(__file__), "corpus.txt"), "rb") as f:
            everything = np.frombuffer(f.read(), dtype="uint8").astype("int64")
        border = int(len(everything) * (1 - held_out))
        symbols = everything[:border] if part == "train" else everything[border:]
        starts = range(0, len(symbols) - window, hop)
        self.pieces = [symbols[s : s + window + 1] for s in starts]
        self.unscored = unscored

    def __len__(self):
        return len(self.pieces)

    def __getitem__(self, i):
        piece = self.pieces[i]
        seen, wanted = piece[:-1], piece[1:]
        hidden = wanted == NEWLINE
        if i > 0:
            hidden[: self.unscored] = True
        return seen, np.where(hidden, SKIP, wanted)


def batches(part, size=6):
    return DataLoader(Corpus(part), batch_size=size, shuffle=part == "train")
