"""The photographs of the entrance board."""
import os

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset

from .annotations import read_names, read_points
from .density import bee_mask, density_map, shrink

MEAN = np.array([0.571, 0.449, 0.297], dtype=np.float32)
STD = np.array([0.118, 0.101, 0.085], dtype=np.float32)
FACTOR = 2


def read_photo(path):
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB"))


def normalize(pixels):
    values = (pixels.astype(np.float32) / 255.0 - MEAN) / STD
    return torch.from_numpy(values).permute(2, 0, 1).contiguous()


class BoardPhotos(Dataset):
    """In training every photograph comes twice: as it is and mirrored."""

    def __init__(self, folder, split):
        self.folder = folder
        self.names = read_names(os.path.join(folder, split + ".txt"))
        self.points = read_points(os.path.join(folder, "bees.csv"))
        self.mirrored = split == "train"

    def __len__(self):
        return len(self.names) * (2 if self.mirrored else 1)

    def __getitem__(self, index):
        mirror = index >= len(self.names)
        name = self.names[index % len(self.names)]
        pixels = read_photo(os.path.join(self.folder, "photos", name + ".png"))
        height, width = pixels.shape[:2]
        points = self.points.get(name, [])
        if mirror:
            pixels = pixels[:, ::-1]
            points = [(width - 1 - x, y) for x, y in points]
        density = shrink(density_map(points, height, width), FACTOR, "sum")
        mask = shrink(bee_mask(points, height, width), FACTOR, "max")
        target = torch.from_numpy(np.stack([density, mask])).float()
        return normalize(pixels), target
