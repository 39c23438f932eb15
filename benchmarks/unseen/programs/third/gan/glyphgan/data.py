import numpy as np
import torch
from torch.utils.data import Dataset

Z = 12


class HalfSize:
    """mean of each 2 x 2 block"""

    def __call__(self, x):
        h, w = x.shape
        return x.reshape(h // 2, 2, w // 2, 2).mean((1, 3))


class Normalise:
    def __init__(self, mean=127.5, scale=127.5):
        self.mean, self.scale = mean, scale

    def __call__(self, x):
        return (x - self.mean) / self.scale


class Glyphs(Dataset):
    """(noise, class asked of the generator, image, class of the image); the noise belongs to the index"""

    def __init__(self, split, n_class=3):
        f = np.load("glyphs.npz")
        n = len(f["labels"])
        rows = np.arange(n)[: n * 4 // 5] if split == "train" else np.arange(n)[n * 4 // 5:]
        self.images, self.labels, self.rows, self.n_class = f["images"], f["labels"], rows, n_class
        self.transforms = [HalfSize(), Normalise()]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, k):
        i = int(self.rows[k])
        x = self.images[i].astype(np.float64)
        for t in self.transforms:
            x = t(x)
        noise = np.random.RandomState(1000 + i).randn(Z)
        return (torch.tensor(noise, dtype=torch.float32), torch.tensor((i * 5 + 1) % self.n_class),
                torch.tensor(x, dtype=torch.float32).unsqueeze(0), torch.tensor(int(self.labels[i])))
