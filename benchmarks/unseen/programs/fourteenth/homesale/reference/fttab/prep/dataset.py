from functools import lru_cache

import torch
from torch.utils.data import Dataset

from ..settings import DATA_DIR, SETTINGS
from .encoder import TableEncoder, read_rows


@lru_cache(maxsize=1)
def get_encoder():
    return TableEncoder(SETTINGS).fit(read_rows(DATA_DIR / "train.csv"))


class TrainNoise:
    """Hides known numbers at random, so that the missing tokens get trained."""

    def __init__(self, p):
        self.p = p

    def __call__(self, num, missing):
        hide = torch.rand(num.shape) < self.p
        return num.masked_fill(hide, 0.0), missing.masked_fill(hide, 1.0)


class ListingTable(Dataset):
    def __init__(self, split, transform=None):
        rows = read_rows(DATA_DIR / f"{split}.csv")
        enc = get_encoder()
        self.num, self.missing, self.cat = map(torch.from_numpy, enc.inputs(rows))
        self.speed, self.price, self.priced = map(torch.from_numpy, enc.targets(rows))
        self.transform = transform

    def __len__(self):
        return len(self.speed)

    def __getitem__(self, i):
        num, missing = self.num[i], self.missing[i]
        if self.transform is not None:
            num, missing = self.transform(num, missing)
        target = {"speed": self.speed[i], "price": self.price[i], "priced": self.priced[i]}
        return (num, missing, self.cat[i]), target


def collate(items):
    inputs = tuple(torch.stack(col) for col in zip(*(x for x, _ in items)))
    labels = {k: torch.stack([y[k] for _, y in items]) for k in items[0][1]}
    return inputs, labels
