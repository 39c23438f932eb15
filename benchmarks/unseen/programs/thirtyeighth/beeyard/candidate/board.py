"""Photographs of the board as a Paddle data set."""
import pathlib

import numpy as np
from paddle.io import Dataset
from PIL import Image

from .clicks import bees_by_photo, photo_list
from .truth import truth_maps

AVERAGE = np.array([0.571, 0.449, 0.297], "float32").reshape(3, 1, 1)
SPREAD = np.array([0.118, 0.101, 0.085], "float32").reshape(3, 1, 1)


def pixels_of(path):
    return np.array(Image.open(path).convert("RGB")).transpose(2, 0, 1)


def scaled(pixels):
    return np.ascontiguousarray((pixels.astype("float32") / 255.0 - AVERAGE) / SPREAD)


def mirror(pixels, bees):
    moved = bees.copy()
    moved[:, 0] = pixels.shape[2] - 1 - bees[:, 0]
    return pixels[:, :, ::-1], moved


class Board(Dataset):
    def __init__(self, folder, split):
        super().__init__()
        self.folder = pathlib.Path(folder)
        bees = bees_by_photo(folder)
        self.items = [(name, bees.get(name, np.zeros((0, 2))), False) for name in photo_list(folder, split)]
        if split == "train":
            self.items += [(name, where, True) for name, where, _ in self.items]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, number):
        name, bees, flipped = self.items[number]
        pixels = pixels_of(self.folder / "photos" / f"{name}.png")
        if flipped:
            pixels, bees = mirror(pixels, bees)
        return scaled(pixels), truth_maps(bees, pixels.shape[1:])
