import numpy as np
import torch
from sr_config import CFG, DATA
from torch.utils.data import DataLoader, Dataset


def gauss(size, sigma):
    x = np.arange(size) - (size - 1) / 2
    g = np.exp(-(x ** 2) / (2 * sigma ** 2))
    return g / g.sum()


def degrade(img, level, rng):
    """img: (H, W, 3) in [0, 1] -> blurred, halved, noisy."""
    g = gauss(CFG.data.blur_size, CFG.data.blur_sigma)
    r = CFG.data.blur_size // 2
    pad = np.pad(img, ((r, r), (r, r), (0, 0)), mode="reflect")
    h, w, _ = img.shape
    rows = sum(g[k] * pad[k:k + h] for k in range(len(g)))
    both = sum(g[k] * rows[:, k:k + w] for k in range(len(g)))
    low = both[::2, ::2]
    return np.clip(low + level * rng.standard_normal(low.shape), 0.0, 1.0)


def normalise(low):
    return ((low - np.array(CFG.data.mean)) / np.array(CFG.data.std)).transpose(2, 0, 1).astype(np.float32)


class Patches(Dataset):
    def __init__(self, split):
        self.raw = np.load(DATA / f"{split}.npy")
        self.train = split == "train"

    def __len__(self):
        return len(self.raw)

    def __getitem__(self, i):
        img = self.raw[i] / 255.0
        if self.train:
            img = np.rot90(img, i % 4)
            if (i // 4) % 2:
                img = img[:, ::-1]
        levels = CFG.data.levels
        level = levels[i % len(levels)]
        low = degrade(img, level, np.random.default_rng(1000 + i))
        high = np.ascontiguousarray(img.transpose(2, 0, 1)).astype(np.float32)
        return torch.from_numpy(normalise(low)), torch.tensor([level * 25.0], dtype=torch.float32), torch.from_numpy(high)


def loader(split):
    data = Patches(split)
    if split == "train":
        order = np.random.default_rng(CFG.data.order_seed).permutation(len(data)).tolist()
        return DataLoader(data, batch_size=CFG.data.batch, sampler=order, drop_last=True)
    return DataLoader(data, batch_size=CFG.data.batch)
