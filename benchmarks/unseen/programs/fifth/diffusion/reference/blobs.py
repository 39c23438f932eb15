import numpy as np
import torch


class Blobs(torch.utils.data.Dataset):
    """two-channel 8x8 pictures of soft blobs in uint8, scaled to [-1, 1]; odd items mirrored"""

    def __init__(self, n=10):
        g = np.arange(8)
        self.raw = []
        for i in range(n):
            r = np.random.RandomState(70 + i)
            c, s = r.uniform(1, 6, (2, 2)), r.uniform(0.8, 2.0, 2)
            img = [np.exp(-((g[None] - c[k, 0]) ** 2 + (g[:, None] - c[k, 1]) ** 2) / (2 * s[k] ** 2)) for k in range(2)]
            self.raw.append((255 * np.stack(img)).astype(np.uint8))

    def __len__(self):
        return len(self.raw)

    def __getitem__(self, i):
        x = torch.from_numpy(self.raw[i]).float().div(127.5).sub(1.0)
        x = x.flip(-1) if i % 2 else x
        t = (i * 13 + 5) % 50
        return x, t
