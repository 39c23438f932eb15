"""From two CSV files to arrays: hashed fields, standardised numbers, click histories."""
import csv
import math
import os
import zlib

import numpy as np
from torch.utils.data import DataLoader, Dataset

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FIELDS = ["user_id", "item_id", "brand", "category", "device", "hour"]


def hash_bucket(field, value, size):
    """Bucket 0 is kept for what is missing."""
    if value == "":
        return 0
    return zlib.crc32(f"{field}={value}".encode("utf-8")) % (size - 1) + 1


class ClickLog:
    """The whole log, with everything that is fitted on the training sessions."""

    def __init__(self, cfg):
        self.cfg = cfg
        with open(os.path.join(ROOT, cfg["items"]), newline="") as handle:
            self.items = {row["item_id"]: row for row in csv.DictReader(handle)}
        with open(os.path.join(ROOT, cfg["impressions"]), newline="") as handle:
            rows = list(csv.DictReader(handle))
        self.train = [r for r in rows if int(r["session"]) < cfg["train_sessions"]]
        self.val = [r for r in rows if int(r["session"]) >= cfg["train_sessions"]]
        self._fit()

    def _fit(self):
        ages = [float(r["age"]) for r in self.train if r["age"]]
        self.median_age = float(np.median(ages))
        self.views, self.clicks = {}, {}
        for row in self.train:
            item = row["item_id"]
            self.views[item] = self.views.get(item, 0) + 1
            self.clicks[item] = self.clicks.get(item, 0) + int(row["click"])
        table = np.array([self.numbers(r) for r in self.train])
        self.mean, self.std = table.mean(0), table.std(0)

    def numbers(self, row):
        item = row["item_id"]
        rate = (self.clicks.get(item, 0) + self.cfg["prior_clicks"]) / (
            self.views.get(item, 0) + self.cfg["prior_views"]
        )
        age = float(row["age"]) if row["age"] else self.median_age
        return [
            math.log1p(float(self.items[item]["price"])),
            age,
            rate,
            math.sqrt(float(row["dwell"])),
            1.0 / math.log2(int(row["position"]) + 1),
        ]

    def popularity(self, item):
        total = sum(self.views.values()) + len(self.items)
        return math.log((self.views.get(item, 0) + 1) / total)

    def encode(self, row):
        buckets = self.cfg["buckets"]
        joined = {**row, **self.items[row["item_id"]]}
        joined["hour"] = str(int(row["hour"]) // 4)
        sparse = [hash_bucket(f, joined[f], buckets[f]) for f in FIELDS]
        clicked = row["history"].split("|") if row["history"] else []
        clicked = clicked[-self.cfg["history_len"]:]
        history = [hash_bucket("item_id", c, buckets["item_id"]) for c in clicked]
        history += [0] * (self.cfg["history_len"] - len(history))
        dense = (np.array(self.numbers(row)) - self.mean) / (self.std + 1e-6)
        return {
            "dense": dense.astype(np.float32),
            "sparse": np.array(sparse, dtype=np.int64),
            "history": np.array(history, dtype=np.int64),
            "labels": {
                "click": np.float32(row["click"]),
                "session": np.int64(row["session"]),
                "item": np.int64(sparse[1]),
                "logq": np.float32(self.popularity(row["item_id"])),
            },
        }


class Impressions(Dataset):
    def __init__(self, cfg, split):
        self.log = ClickLog(cfg)
        self.rows = self.log.train if split == "train" else self.log.val

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.log.encode(self.rows[index])


def loader(cfg, split):
    return DataLoader(Impressions(cfg, split), batch_size=cfg["batch_size"], shuffle=False, drop_last=split == "train")
