"""Film strips of mouths."""
import csv
from functools import lru_cache

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from . import letters

FRAMES, HEIGHT, WIDTH = 10, 16, 24
SPEAKERS = ["anna", "ben", "cem", "dora", "emil"]


def strip(path):
    """[frame, row, column] between 0 and 1, each frame made smaller by itself."""
    with Image.open(path) as picture:
        wide = picture.width // FRAMES
        parts = [picture.crop((k * wide, 0, (k + 1) * wide, picture.height)) for k in range(FRAMES)]
        small = [np.asarray(p.resize((WIDTH, HEIGHT), Image.BILINEAR), "float32") for p in parts]
    return np.stack(small) / 255


def stretch(clip, n):
    """Dark and bright of a clip's real frames at 0 and 1."""
    low, high = np.percentile(clip[:n], [2, 98])
    return (clip - low) / max(high - low, 0.05)


@lru_cache(None)
def table():
    with open("data/clips.csv", newline="") as f:
        return list(csv.DictReader(f))


@lru_cache(None)
def usual():
    """The mean mouth and the deviation over all real frames of the training clips."""
    real = [stretch(strip(f"data/clips/{r['clip']}.png"), int(r["frames"]))[: int(r["frames"])]
            for r in table() if r["split"] == "train"]
    real = np.concatenate(real).astype("float64")
    return real.mean(0), real.std()


def prepare(path, n):
    """[2, frame, row, column]: the mouth against the mean one, and how it moved since the frame before."""
    mean, std = usual()
    x = (stretch(strip(path), n) - mean) / std
    moved = np.diff(x, axis=0, prepend=x[:1])
    both = np.stack([x, moved])
    both[:, n:] = 0
    return both.astype("float32")


class Clips(Dataset):
    def __init__(self, split):
        self.rows = [r for r in table() if r["split"] == split]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        r = self.rows[i]
        n, codes = int(r["frames"]), letters.encode(r["word"])
        clip = torch.from_numpy(prepare(f"data/clips/{r['clip']}.png", n))
        labels = codes + [SPEAKERS.index(r["speaker"])]
        return clip, torch.tensor(n), torch.tensor(letters.shifted(codes)), torch.tensor(labels)


def loader(split):
    return DataLoader(Clips(split), batch_size=7, shuffle=False)
