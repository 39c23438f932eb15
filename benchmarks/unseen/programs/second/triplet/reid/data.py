import os

import numpy as np
from paddle.io import Dataset
from paddle.vision.transforms import Compose
from PIL import Image

CROPS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "crops")


class Load:
    def __call__(self, im):
        return im.convert("RGB")


class Resize:
    def __init__(self, h, w):
        self.size = (w, h)

    def __call__(self, im):
        return im.resize(self.size, resample=Image.Resampling.BICUBIC)


class Scale:
    def __call__(self, im):
        return np.ascontiguousarray(np.moveaxis(np.array(im, "float32"), -1, 0)) / np.float32(255)


class Centre:
    def __call__(self, a):
        return a * 2 - 1


def pipeline():
    return Compose([Load(), Resize(22, 14), Scale(), Centre()])


class People(Dataset):
    def __init__(self, split):
        folder = os.path.join(CROPS, split)
        self.samples = [(os.path.join(folder, n), int(n[1:n.index("_")])) for n in sorted(os.listdir(folder))]
        self.transform = pipeline()

    def __getitem__(self, i):
        path, person = self.samples[i]
        with Image.open(path) as im:
            return self.transform(im), person

    def __len__(self):
        return len(self.samples)
