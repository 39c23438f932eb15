import numpy as np
import torch
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, Dataset


class DequantisedDigits(Dataset):
    def __init__(self, split, levels=17, count=80):
        digits = load_digits()
        part = slice(0, 1400) if split == "train" else slice(1400, None)
        self.x, self.y, self.levels = digits.images[part][:count], digits.target[part][:count], levels
        self.offset = 0 if split == "train" else 10_000

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        noise = np.random.RandomState(self.offset + i).uniform(size=(8, 8))
        x = (self.x[i] + noise) / self.levels
        return torch.from_numpy(x.astype("float32")).unsqueeze(0), torch.tensor(self.y[i])


def get_loader(split, args):
    return DataLoader(DequantisedDigits(split, args.levels_of_grey), args.batch_size, shuffle=split == "train", drop_last=True)
