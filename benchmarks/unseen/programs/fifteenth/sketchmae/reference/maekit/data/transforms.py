import numpy as np
import torch
from PIL import Image


class Compose:
    def __init__(self, steps):
        self.steps = steps

    def __call__(self, x, rng):
        for step in self.steps:
            x = step(x, rng)
        return x


class ResizeShort:
    def __init__(self, size):
        self.size = size

    def __call__(self, img, rng):
        w, h = img.size
        scale = self.size / min(w, h)
        size = (int(round(w * scale)), int(round(h * scale)))
        return img.resize(size, Image.BICUBIC)


class CenterCrop:
    def __init__(self, size):
        self.size = size

    def __call__(self, img, rng):
        w, h = img.size
        left, top = (w - self.size) // 2, (h - self.size) // 2
        return img.crop((left, top, left + self.size, top + self.size))


class RandomCrop(CenterCrop):
    def __call__(self, img, rng):
        w, h = img.size
        top = int(rng.integers(0, h - self.size + 1))
        left = int(rng.integers(0, w - self.size + 1))
        return img.crop((left, top, left + self.size, top + self.size))


class RandomFlip:
    def __call__(self, img, rng):
        if rng.random() < 0.5:
            return img.transpose(Image.FLIP_LEFT_RIGHT)
        return img


class ToNormalizedTensor:
    def __init__(self, mean, std):
        self.mean = torch.tensor(mean).view(3, 1, 1)
        self.std = torch.tensor(std).view(3, 1, 1)

    def __call__(self, img, rng):
        x = torch.from_numpy(np.array(img, dtype=np.float32)).permute(2, 0, 1) / 255.0
        return (x - self.mean) / self.std


def build_transform(cfg, train):
    tail = ToNormalizedTensor(cfg.mean, cfg.std)
    if train:
        return Compose([ResizeShort(cfg.resize), RandomCrop(cfg.size), RandomFlip(), tail])
    return Compose([ResizeShort(cfg.resize), CenterCrop(cfg.size), tail])
