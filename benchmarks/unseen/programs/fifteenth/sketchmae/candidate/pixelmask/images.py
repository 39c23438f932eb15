import os

import numpy as np
import paddle
from PIL import Image, ImageOps

from .options import DATA, OPTIONS


def read(path):
    with Image.open(path) as img:
        return img.convert("RGB")


def shorter_side(img, short):
    factor = short / min(img.size)
    return img.resize([int(round(s * factor)) for s in img.size], Image.BICUBIC)


def cut(img, top, left, side):
    return img.crop((left, top, left + side, top + side))


def middle(img, side):
    width, height = img.size
    return cut(img, (height - side) // 2, (width - side) // 2, side)


def anywhere(img, side, rng):
    width, height = img.size
    top = rng.integers(0, height - side, endpoint=True)
    left = rng.integers(0, width - side, endpoint=True)
    return cut(img, int(top), int(left), side)


def to_array(img, options):
    pixels = np.asarray(img).astype("float32") / np.float32(255.0)
    pixels = (pixels - np.float32(options.mean)) / np.float32(options.std)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))


def prepare(img, options, rng=None):
    img = shorter_side(img, options.short)
    if rng is None:
        return to_array(middle(img, options.side), options)
    img = anywhere(img, options.side, rng)
    if rng.random() < 0.5:
        img = ImageOps.mirror(img)
    return to_array(img, options)


def draw_mask(rng, n_patches, n_seen):
    order = rng.random(n_patches).argsort(kind="stable")
    hidden = np.zeros(n_patches, dtype="float32")
    hidden[order[n_seen:]] = 1.0
    return order.astype("int64"), hidden


class Pictures(paddle.io.Dataset):
    def __init__(self, split, options=OPTIONS):
        super().__init__()
        self.options = options
        self.moving = split == "train"
        with open(os.path.join(DATA, split + ".txt")) as f:
            names = [line.strip() for line in f]
        self.names = [name for name in names if name and name[0] != "#"]

    def __getitem__(self, i):
        options = self.options
        rng = np.random.default_rng([options.pictures.seed, i])
        img = read(os.path.join(DATA, "pictures", self.names[i]))
        image = prepare(img, options.pictures, rng if self.moving else None)
        order, hidden = draw_mask(rng, options.n_patches, options.n_seen)
        return (image, order), {"image": image, "mask": hidden}

    def __len__(self):
        return len(self.names)
