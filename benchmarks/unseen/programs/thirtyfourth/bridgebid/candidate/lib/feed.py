"""Data set, sampler and collation."""
import json
from pathlib import Path

import numpy as np
from paddle.io import BatchSampler, DataLoader, Dataset

from .deal import position
from .vocab import NUMBER, PAD

SOURCE = Path(__file__).parents[2].joinpath("data", "positions.json")
SIZE, POOL = 8, 4


class TableSet(Dataset):
    def __init__(self, split):
        super().__init__()
        rows = json.loads(SOURCE.read_text())
        self.rows = [row for row in rows if row["split"] == split]

    def __getitem__(self, k):
        row = self.rows[k]
        sample = position(row)
        sample.update(bid=NUMBER[row["bid"]], tricks=row["tricks"])
        return sample

    def __len__(self):
        return len(self.rows)


class Buckets(BatchSampler):
    """Positions of about the same length together, within pools of some batches."""

    def __init__(self, table):
        super().__init__(dataset=table, batch_size=SIZE)
        length = np.array([len(row["auction"].split()) for row in table.rows])
        self.plan = []
        for pool in np.array_split(np.arange(len(table)), range(SIZE * POOL, len(table), SIZE * POOL)):
            pool = pool[np.argsort(-length[pool], kind="stable")]
            self.plan += [pool[k:k + SIZE].tolist() for k in range(0, len(pool), SIZE)]

    def __iter__(self):
        return iter(self.plan)

    def __len__(self):
        return len(self.plan)


def gather(samples):
    longest = max(len(s["calls"]) for s in samples)

    def wide(key, fill):
        return np.stack([np.pad(s[key], (0, longest - len(s[key])), constant_values=fill) for s in samples])

    batch = {key: np.stack([s[key] for s in samples]) for key in ("suits", "vul", "legal")}
    batch.update(calls=wide("calls", PAD), seats=wide("seats", 0))
    batch["labels"] = {key: np.asarray([s[key] for s in samples]) for key in ("bid", "tricks", "legal")}
    return batch


def loader(split):
    table = TableSet(split)
    return DataLoader(table, batch_sampler=Buckets(table), collate_fn=gather)
