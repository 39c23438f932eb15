import numpy as np
import torch
from torch.utils.data import Dataset

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def draw(i):
    """uint8 HWC picture of a disc and a bar on a gradient"""
    r = np.random.RandomState(900 + i)
    yy, xx = np.mgrid[0:20, 0:20]
    img = np.stack([xx * 6 + 40, yy * 5 + 60, (xx + yy) * 3 + 30], -1)
    cx, cy, rad = r.randint(4, 16), r.randint(4, 16), r.randint(3, 6)
    img[(xx - cx) ** 2 + (yy - cy) ** 2 <= rad ** 2] = r.randint(0, 256, 3)
    row = r.randint(0, 18)
    img[row:row + 2] = r.randint(0, 256, 3)
    return np.clip(img, 0, 255).astype(np.uint8)


class Shapes(Dataset):
    def __init__(self, n=12, size=16):
        self.n, self.size = n, size

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        r = np.random.RandomState(17 * i + 1)
        img = draw(i)
        top, left = r.randint(0, 20 - self.size + 1), r.randint(0, 20 - self.size + 1)
        img = img[top:top + self.size, left:left + self.size]
        if r.rand() < 0.5:
            img = img[:, ::-1]
        x = torch.from_numpy(img.copy()).permute(2, 0, 1).float() / 255
        return (x - torch.tensor(MEAN).float()[:, None, None]) / torch.tensor(STD).float()[:, None, None]
