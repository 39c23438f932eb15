import glob

import numpy as np
from PIL import Image
from torch.utils.data import Dataset

MEAN = np.array([0.45, 0.45, 0.42], dtype=np.float32)
STD = np.array([0.2, 0.2, 0.22], dtype=np.float32)


def picture(path):
    return np.asarray(Image.open(path).convert("RGB"), dtype=np.float32) / 255


def normalise(x):
    return np.ascontiguousarray(((x - MEAN) / STD).transpose(2, 0, 1))


class Floods(Dataset):
    def __init__(self, split):
        names = sorted(p[:-len("_mask.png")] for p in glob.glob("data/*_mask.png"))
        self.names = [n for i, n in enumerate(names) if (i % 4 == 3) == (split == "val")]
        self.split = split

    def __len__(self):
        return len(self.names)

    def __getitem__(self, i):
        name = self.names[i]
        before, after = picture(name + "_before.png"), picture(name + "_after.png")
        mask = np.asarray(Image.open(name + "_mask.png")).astype(np.int64)
        if self.split == "train":
            rng = np.random.RandomState(300 + i)
            if rng.rand() < 0.5:
                before, after, mask = before[:, ::-1], after[:, ::-1], mask[:, ::-1]
            k = rng.randint(4)
            before, after, mask = (np.rot90(v, k) for v in (before, after, mask))
            after = (after * np.float32(rng.uniform(0.85, 1.15)) + np.float32(rng.uniform(-0.05, 0.05))).clip(0, 1)
        return normalise(before), normalise(after), np.ascontiguousarray(mask)
