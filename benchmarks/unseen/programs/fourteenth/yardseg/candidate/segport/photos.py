import os
from random import randint, random, uniform

import numpy as np
import paddle
from PIL import Image, ImageOps

from .options import PHOTOS as P


def open_photo(path):
    with Image.open(path) as im:
        return im.convert("RGB")


def open_labels(path):
    with Image.open(path) as im:
        return Image.fromarray(np.asarray(im, dtype=np.uint8))


def short_side(im, side, resample):
    f = side / min(im.size)
    return im.resize(tuple(max(1, round(v * f)) for v in im.size), resample)


def to_input(im, light=1.0):
    x = np.asarray(im, dtype=np.float32).transpose(2, 0, 1) / np.float32(255.0)
    if light != 1.0:
        x = np.clip(x * np.float32(light), 0.0, 1.0)
    mean = np.array(P.mean, dtype=np.float32).reshape(3, 1, 1)
    std = np.array(P.std, dtype=np.float32).reshape(3, 1, 1)
    return paddle.to_tensor((x - mean) / std)


def to_labels(im):
    return paddle.to_tensor(np.asarray(im).astype("int64"))


def grow(im, side, fill):
    right, bottom = max(side - im.width, 0), max(side - im.height, 0)
    if right or bottom:
        im = ImageOps.expand(im, (0, 0, right, bottom), fill)
    return im


def evaluation_view(photo, labels):
    photo = short_side(photo, P.side, Image.BILINEAR)
    labels = short_side(labels, P.side, Image.NEAREST)
    left, top = (photo.width - P.side) // 2, (photo.height - P.side) // 2
    window = (left, top, left + P.side, top + P.side)
    return to_input(photo.crop(window)), to_labels(labels.crop(window))


def training_view(photo, labels):
    side = P.side * uniform(*P.zoom)
    grey = tuple(round(255 * m) for m in P.mean)
    photo = grow(short_side(photo, side, Image.BILINEAR), P.side, grey)
    labels = grow(short_side(labels, side, Image.NEAREST), P.side, P.void)
    left, top = randint(0, photo.width - P.side), randint(0, photo.height - P.side)
    window = (left, top, left + P.side, top + P.side)
    photo, labels = photo.crop(window), labels.crop(window)
    if random() < P.mirror:
        photo, labels = ImageOps.mirror(photo), ImageOps.mirror(labels)
    return to_input(photo, uniform(1 - P.light, 1 + P.light)), to_labels(labels)


VIEWS = {"train": training_view, "val": evaluation_view}


class Scenes(paddle.io.Dataset):
    def __init__(self, split, view):
        self.view = view
        with open(os.path.join(P.folder, split + ".txt")) as fh:
            self.keys = fh.read().split()

    def __getitem__(self, n):
        key = self.keys[n]
        photo = open_photo(os.path.join(P.folder, "images", key + ".jpg"))
        labels = open_labels(os.path.join(P.folder, "masks", key + ".png"))
        return self.view(photo, labels)

    def __len__(self):
        return len(self.keys)
