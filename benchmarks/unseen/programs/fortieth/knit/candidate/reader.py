from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from .yarn import FROM_BEHIND, TABLE

FOLDER = Path("data")
BEHIND = np.array(FROM_BEHIND)
COLOURS = np.array([t[1] for t in TABLE], dtype="int64")


@dataclass
class Chart:
    name: str
    split: str
    gauge: float
    needle: float
    flat: bool

    @property
    def path(self):
        return FOLDER / f"{self.name}.png"

    def rows(self):
        return read_rows(self.path, self.flat)


def charts():
    head, *lines = (FOLDER / "charts.csv").read_text().split()
    assert head == "name,split,gauge,needle,flat", head
    out = []
    for line in lines:
        name, split, gauge, needle, flat = line.split(",")
        out.append(Chart(name, split, float(gauge), float(needle), flat == "1"))
    return out


def codes(path):
    rgb = np.array(Image.open(path).convert("RGB")).astype("int64")
    distance = np.square(rgb[..., None, :] - COLOURS).sum(axis=-1)
    return np.argmin(distance, axis=-1)


def read_rows(path, flat):
    """A chart begins below; right-side rows go from right to left, wrong-side rows (flat only) back again."""
    rows = codes(path)[::-1]
    done = np.array(rows[:, ::-1])
    if flat:
        done[1::2] = BEHIND[rows[1::2]]
    return done.astype("int64")
