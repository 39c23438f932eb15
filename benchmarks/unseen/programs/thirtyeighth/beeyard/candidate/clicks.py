"""Annotations: one row of bees.csv for every bee."""
import csv
import pathlib

import numpy as np


def bees_by_photo(folder):
    found = {}
    with (pathlib.Path(folder) / "bees.csv").open(newline="") as stream:
        for photo, x, y in list(csv.reader(stream))[1:]:
            found.setdefault(photo, []).append([float(x), float(y)])
    return {photo: np.array(bees) for photo, bees in found.items()}


def photo_list(folder, split):
    return (pathlib.Path(folder) / f"{split}.txt").read_text().split()
