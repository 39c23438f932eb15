"""Synthetic cells: filled ellipses on a noisy, vignetted background."""
import random

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


def draw_sample(rng, height=52, width=46):
    yy, xx = np.mgrid[0:height, 0:width].astype(np.float32)
    mask = np.zeros((height, width), dtype=np.uint8)
    image = rng.randint(60, 120, size=(height, width, 3)).astype(np.float32)
    for _ in range(rng.randint(2, 5)):
        cy, cx = rng.uniform(8, height - 8), rng.uniform(8, width - 8)
        ry, rx = rng.uniform(4, 11), rng.uniform(4, 9)
        inside = ((yy - cy) / ry) ** 2 + ((xx - cx) / rx) ** 2 <= 1
        mask[inside] = 255
        image[inside] += rng.uniform(30, 110, size=3).astype(np.float32)
    return image.clip(0, 255).astype(np.uint8), mask


class CenterCrop:
    def __init__(self, size):
        self.size = size

    def __call__(self, image, mask):
        h, w = self.size
        top = (image.shape[0] - h) // 2
        left = (image.shape[1] - w) // 2
        return image[top : top + h, left : left + w], mask[top : top + h, left : left + w]


class RandomFlip:
    def __call__(self, image, mask):
        if random.random() < 0.5:
            image, mask = image[:, ::-1], mask[:, ::-1]
        if random.random() < 0.5:
            image, mask = image[::-1], mask[::-1]
        return image, mask


class GammaCorrect:
    def __init__(self, gamma=0.8):
        self.gamma = gamma

    def __call__(self, image, mask):
        table = np.round(255 * (np.arange(256) / 255.0) ** self.gamma).astype(np.uint8)
        return table[image], mask


class ToTensor:
    def __init__(self, mean, std):
        self.mean = np.array(mean, dtype=np.float32)
        self.std = np.array(std, dtype=np.float32)

    def __call__(self, image, mask):
        image = (image.astype(np.float32) / 255.0 - self.mean) / self.std
        image = torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1)))
        mask = torch.from_numpy(np.ascontiguousarray(mask > 127)).float().unsqueeze(0)
        return image, mask


class CellDataset(Dataset):
    def __init__(self, cfg, train):
        offset, count = (0, cfg.num_train) if train else (10_000, cfg.num_val)
        self.seeds = [cfg.seed + offset + i for i in range(count)]
        self.steps = [CenterCrop(cfg.image_size), GammaCorrect()]
        if train:
            self.steps.append(RandomFlip())
        self.steps.append(ToTensor(cfg.mean, cfg.std))

    def __len__(self):
        return len(self.seeds)

    def __getitem__(self, index):
        image, mask = draw_sample(np.random.RandomState(self.seeds[index]))
        for step in self.steps:
            image, mask = step(image, mask)
        return image, mask


def make_loader(cfg, train):
    return DataLoader(CellDataset(cfg, train), batch_size=cfg.batch_size, shuffle=train, drop_last=train)
