import os

import numpy as np
from paddle.io import Dataset
from PIL import Image

from config import HEIGHT, MEAN, STD, WIDTH


def shrink(pair):
    image, mask = pair
    return image.resize((WIDTH, HEIGHT), Image.BILINEAR), mask.resize((WIDTH, HEIGHT), Image.NEAREST)


def to_arrays(pair):
    image, mask = pair
    return np.asarray(image, "float32").transpose(2, 0, 1) / 255, np.asarray(mask).astype("int64")


def standardise(pair):
    image, mask = pair
    mean = np.array(MEAN, "float32").reshape(3, 1, 1)
    std = np.array(STD, "float32").reshape(3, 1, 1)
    return (image - mean) / std, mask


class Pipeline:
    def __init__(self, *steps):
        self.transforms = list(steps)

    def __call__(self, pair):
        for step in self.transforms:
            pair = step(pair)
        return pair


def pipeline():
    return Pipeline(shrink, to_arrays, standardise)


class Shapes(Dataset):
    def __init__(self, folder, transform):
        names = [n[:-4] for n in os.listdir(folder) if n.endswith(".png") and "_mask" not in n]
        self.stems = [os.path.join(folder, n) for n in sorted(names)]
        self.transform = transform

    def __len__(self):
        return len(self.stems)

    def __getitem__(self, i):
        image = Image.open(self.stems[i] + ".png").convert("RGB")
        return self.transform((image, Image.open(self.stems[i] + "_mask.png")))
