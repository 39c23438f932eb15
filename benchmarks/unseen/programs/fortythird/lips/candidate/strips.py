"""Reading of film strips."""
import csv
import os

import numpy as np
import paddle
from PIL import Image

from . import alphabet

COUNT, SIZE = 10, (24, 16)
PEOPLE = ("anna", "ben", "cem", "dora", "emil")
CACHE = {}


def once(name, make):
    if name not in CACHE:
        CACHE[name] = make()
    return CACHE[name]


def listing():
    def load():
        with open("data/clips.csv", newline="") as handle:
            return [dict(r, frames=int(r["frames"])) for r in csv.DictReader(handle)]

    return once("listing", load)


def open_strip(path, n):
    """Frames [COUNT, 16, 24]; dark and bright of the first `n` lie at 0 and 1."""
    strip = Image.open(path)
    step = strip.size[0] // COUNT
    frames = np.empty((COUNT, SIZE[1], SIZE[0]), "float32")
    for k in range(COUNT):
        frame = strip.crop((k * step, 0, k * step + step, strip.size[1]))
        frames[k] = frame.resize(SIZE, resample=Image.Resampling.BILINEAR)
    frames /= 255
    dark, bright = np.percentile(frames[:n], (2, 98))
    return (frames - dark) / max(bright - dark, 0.05)


def where_is(clip):
    return os.path.join("data", "clips", clip + ".png")


def mean_mouth():
    def measure():
        seen = [open_strip(where_is(r["clip"]), r["frames"])[: r["frames"]] for r in listing() if r["split"] == "train"]
        seen = np.concatenate(seen).astype("float64")
        return seen.mean(axis=0), seen.std()

    return once("mouth", measure)


def channels(path, n):
    mouth, spread = mean_mouth()
    still = (open_strip(path, n) - mouth) / spread
    move = np.zeros_like(still)
    move[1:] = still[1:] - still[:-1]
    pair = np.stack([still, move])
    pair *= (np.arange(COUNT) < n)[:, None, None]
    return pair.astype("float32")


class Strips(paddle.io.Dataset):
    def __init__(self, split):
        super().__init__()
        self.chosen = [r for r in listing() if r["split"] == split]

    def __len__(self):
        return len(self.chosen)

    def __getitem__(self, index):
        row = self.chosen[index]
        codes = alphabet.to_codes(row["word"])
        return (channels(where_is(row["clip"]), row["frames"]), np.array(row["frames"]),
                np.array(alphabet.before(codes)), np.array(codes + [PEOPLE.index(row["speaker"])]))


def feed(split):
    return paddle.io.DataLoader(Strips(split), batch_size=7, shuffle=False, drop_last=False)
