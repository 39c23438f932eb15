import random

import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, Dataset

MEAN, STD = 0.3052, 0.3613


class Compose:
    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, img):
        for t in self.transforms:
            img = t(img)
        return img


class Resize:
    def __init__(self, size):
        self.size = size

    def __call__(self, img):
        return img.resize((self.size, self.size), Image.BICUBIC)


class RandomRotation:
    def __init__(self, degrees):
        self.degrees = degrees

    def __call__(self, img):
        return img.rotate(random.uniform(-self.degrees, self.degrees), resample=Image.BILINEAR, fillcolor=0)


class CenterCrop:
    def __init__(self, size):
        self.size = size

    def __call__(self, img):
        left, top = (img.width - self.size) // 2, (img.height - self.size) // 2
        return img.crop((left, top, left + self.size, top + self.size))


class RandomCrop(CenterCrop):
    def __call__(self, img):
        left, top = random.randint(0, img.width - self.size), random.randint(0, img.height - self.size)
        return img.crop((left, top, left + self.size, top + self.size))


class ToArray:
    def __call__(self, img):
        return np.asarray(img, "float32")[None] / 255.0


class Brightness:
    def __init__(self, amount):
        self.amount = amount

    def __call__(self, x):
        return np.clip(x * np.float32(1 + random.uniform(-self.amount, self.amount)), 0.0, 1.0)


class Normalize:
    def __init__(self, mean, std):
        self.mean, self.std = np.float32(mean), np.float32(std)

    def __call__(self, x):
        return torch.from_numpy((x - self.mean) / self.std)


def create_transform(split):
    if split == "train":
        return Compose([Resize(36), RandomRotation(12), RandomCrop(32), ToArray(), Brightness(0.3), Normalize(MEAN, STD)])
    return Compose([Resize(36), CenterCrop(32), ToArray(), Normalize(MEAN, STD)])


class Digits(Dataset):
    """Every fifth digit is for validation."""

    def __init__(self, split, transform, limit=96):
        digits = load_digits()
        chosen = [i for i in range(len(digits.target)) if (i % 5 == 4) == (split == "val")][:limit]
        self.images = np.round(digits.images[chosen] * 255 / 16).astype("uint8")
        self.targets = digits.target[chosen]
        self.transform = transform

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, i):
        return self.transform(Image.fromarray(self.images[i])), int(self.targets[i])


def create_loader(split):
    return DataLoader(Digits(split, create_transform(split)), batch_size=16, shuffle=split == "train", drop_last=split == "train")
