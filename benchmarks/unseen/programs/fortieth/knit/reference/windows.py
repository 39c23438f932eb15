import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from .chartio import index, worked

PAST = 4
STRIDE = {"train": 2, "val": 3}
BATCH = 6


def gauge_scale():
    """Mean and standard deviation of gauge and needle over the training charts."""
    known = torch.tensor([[c["gauge"], c["needle"]] for c in index() if c["split"] == "train"], dtype=torch.float64)
    return known.mean(0).numpy(), known.std(0).numpy()


def describe(chart, row, scale):
    mean, std = scale
    yarn = (np.array([chart["gauge"], chart["needle"]]) - mean) / std
    return np.array([*yarn, chart["flat"], row % 2], dtype=np.float32)


class NextRow(Dataset):
    def __init__(self, split):
        self.items = []
        scale = gauge_scale()
        for chart in index():
            if chart["split"] != split:
                continue
            rows = worked(f"data/{chart['name']}.png", chart["flat"])
            for end in range(PAST, len(rows), STRIDE[split]):
                self.items.append((rows[end - PAST:end], describe(chart, end, scale), rows[end]))
        if split == "train":
            order = np.random.RandomState(8).permutation(len(self.items))
            self.items = [self.items[i] for i in order]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        rows, meta, target = self.items[i]
        return torch.from_numpy(rows.copy()), torch.from_numpy(meta), torch.from_numpy(target.copy())


def batches(split):
    return DataLoader(NextRow(split), batch_size=BATCH, shuffle=False)
