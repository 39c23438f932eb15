import numpy as np
import paddle
from paddle.io import DataLoader, Dataset

from . import config, prep


class Listings(Dataset):
    def __init__(self, split):
        super().__init__()
        frame = prep.table(prep.FOLDER / (split + ".csv"))
        self.x = prep.fitted().encode(frame)
        self.y = prep.fitted().answers(frame)
        self.hide = config.data["hide"] if split == "train" else 0.0

    def __len__(self):
        return self.x[0].shape[0]

    def __getitem__(self, k):
        num, gaps, cats = (part[k].copy() for part in self.x)
        if self.hide > 0:
            out = np.random.rand(len(num)) < self.hide
            num[out] = 0.0
            gaps[out] = 1.0
        speed, price, priced = (part[k] for part in self.y)
        return (num, gaps, cats), dict(speed=speed, price=price, priced=priced)


def merge(samples):
    xs = [np.stack(parts) for parts in zip(*[s[0] for s in samples])]
    ys = {}
    for key in ("speed", "price", "priced"):
        ys[key] = paddle.to_tensor(np.array([s[1][key] for s in samples]))
    return tuple(paddle.to_tensor(x) for x in xs), ys


def batches(split):
    fresh = split == "train"
    return DataLoader(Listings(split), batch_size=config.data["batch"], shuffle=fresh, drop_last=fresh,
                      collate_fn=merge)
