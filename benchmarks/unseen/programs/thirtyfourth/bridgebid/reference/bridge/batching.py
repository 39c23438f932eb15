import numpy as np
import torch
from torch.utils.data import DataLoader, Sampler

from .calls import PAD


def pad(rows, value):
    out = np.full((len(rows), max(len(r) for r in rows)), value, np.int64)
    for i, row in enumerate(rows):
        out[i, :len(row)] = row
    return torch.from_numpy(out)


def collate(samples):
    def stack(key):
        return torch.from_numpy(np.stack([s[key] for s in samples]))
    return {
        "suits": stack("suits"),
        "calls": pad([s["calls"] for s in samples], PAD),
        "seats": pad([s["seats"] for s in samples], 0),
        "vul": stack("vul"),
        "legal": stack("legal"),
        "labels": {
            "bid": torch.tensor([s["bid"] for s in samples]),
            "tricks": torch.tensor([s["tricks"] for s in samples]),
            "legal": stack("legal"),
        },
    }


class ByLength(Sampler):
    """Pools of four batches, each sorted by the length of the auction (longest first); no chance in it."""

    def __init__(self, lengths, size):
        self.lengths, self.size = lengths, size

    def __iter__(self):
        pool = 4 * self.size
        for start in range(0, len(self.lengths), pool):
            part = sorted(range(start, min(start + pool, len(self.lengths))), key=lambda i: -self.lengths[i])
            for k in range(0, len(part), self.size):
                yield part[k:k + self.size]

    def __len__(self):
        return -(-len(self.lengths) // self.size)


def batches(dataset, size=8):
    lengths = [len(row["auction"].split()) for row in dataset.rows]
    return DataLoader(dataset, batch_sampler=ByLength(lengths, size), collate_fn=collate)
