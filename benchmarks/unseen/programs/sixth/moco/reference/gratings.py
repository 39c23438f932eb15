"""Textures: a class is an orientation and a wavelength; two augmented views of each."""
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


def texture(rng, label, size=22):
    yy, xx = np.mgrid[0:size, 0:size]
    angle = np.pi * label / 6 + rng.normal(0, 0.05)
    wave = 4 + 1.5 * (label % 3)
    img = 0.5 + 0.4 * np.sin(2 * np.pi * (xx * np.cos(angle) + yy * np.sin(angle)) / wave + rng.uniform(0, 6))
    return (img * 255).round().astype(np.uint8)


class TwoViews:
    def __init__(self, size=16, mean=0.5, std=0.25):
        self.size, self.mean, self.std = size, mean, std

    def view(self, img, rng):
        top, left = rng.randint(0, img.shape[0] - self.size + 1, size=2)
        img = img[top : top + self.size, left : left + self.size].astype(np.float32) / 255
        if rng.rand() < 0.5:
            img = img[:, ::-1]
        img = (img - img.mean()) * rng.uniform(0.6, 1.4) + img.mean()
        img = img + rng.normal(0, 0.03, img.shape)
        y, x = rng.randint(0, self.size - 4, size=2)
        img[y : y + 4, x : x + 4] = 0.5
        img = (img.clip(0, 1) - self.mean) / self.std
        return torch.from_numpy(img.astype(np.float32))[None]

    def __call__(self, img, rng):
        return self.view(img, rng), self.view(img, rng)


class Gratings(Dataset):
    def __init__(self, split):
        self.base, self.n = (1000, 48) if split == "train" else (5000, 24)
        self.views = TwoViews()

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        rng = np.random.RandomState(self.base + i)
        label = (i * 5 + i // 6) % 6
        im_q, im_k = self.views(texture(rng, label), rng)
        return im_q, im_k, label


def loader(opts, split):
    return DataLoader(Gratings(split), opts.batch_size, shuffle=split == "train", drop_last=True)
