import random

import numpy as np
import torch
from PIL import Image


class Compose:
    def __init__(self, *ops):
        self.ops = ops

    def __call__(self, image, mask):
        for op in self.ops:
            image, mask = op(image, mask)
        return image, mask


class ResizeShort:
    def __init__(self, size, scale_range=(1.0, 1.0)):
        self.size, self.scale_range = size, scale_range

    def __call__(self, image, mask):
        target = self.size * random.uniform(*self.scale_range)
        w, h = image.size
        f = target / min(w, h)
        new = (max(1, round(w * f)), max(1, round(h * f)))
        image = image.resize(new, Image.BILINEAR)
        if mask is not None:
            mask = mask.resize(new, Image.NEAREST)
        return image, mask


class PadTo:
    def __init__(self, size, fill, ignore):
        self.size, self.ignore = size, ignore
        self.fill = tuple(int(round(255 * v)) for v in fill)

    def __call__(self, image, mask):
        w, h = max(image.width, self.size), max(image.height, self.size)
        if (w, h) == image.size:
            return image, mask
        canvas = Image.new("RGB", (w, h), self.fill)
        canvas.paste(image, (0, 0))
        labels = Image.new("L", (w, h), self.ignore)
        labels.paste(mask, (0, 0))
        return canvas, labels


class Crop:
    def __init__(self, size, where):
        self.size, self.where = size, where

    def __call__(self, image, mask):
        dx, dy = image.width - self.size, image.height - self.size
        if self.where == "random":
            x, y = random.randint(0, dx), random.randint(0, dy)
        else:
            x, y = dx // 2, dy // 2
        box = (x, y, x + self.size, y + self.size)
        return image.crop(box), mask.crop(box)


class Flip:
    def __init__(self, p):
        self.p = p

    def __call__(self, image, mask):
        if random.random() < self.p:
            image = image.transpose(Image.FLIP_LEFT_RIGHT)
            mask = mask.transpose(Image.FLIP_LEFT_RIGHT)
        return image, mask


class ToTensors:
    def __init__(self, mean, std, brightness=0.0):
        self.mean = torch.tensor(mean).view(3, 1, 1)
        self.std = torch.tensor(std).view(3, 1, 1)
        self.brightness = brightness

    def __call__(self, image, mask):
        x = torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 255.0
        if self.brightness:
            x = (x * random.uniform(1 - self.brightness, 1 + self.brightness)).clamp(0, 1)
        x = (x - self.mean) / self.std
        y = None if mask is None else torch.from_numpy(np.array(mask)).long()
        return x, y


def build_transforms(split, c):
    if split == "train":
        return Compose(ResizeShort(c.size, c.scale_range), PadTo(c.size, c.mean, c.ignore),
                       Crop(c.size, "random"), Flip(c.flip), ToTensors(c.mean, c.std, c.brightness))
    return Compose(ResizeShort(c.size), Crop(c.size, "center"), ToTensors(c.mean, c.std))
