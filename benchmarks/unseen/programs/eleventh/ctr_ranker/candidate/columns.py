# -*- coding: utf-8 -*-
# Columns of the click log -> model inputs.
from collections import Counter
from pathlib import Path
from zlib import crc32

import numpy as np
import pandas as pd
from paddle.io import BatchSampler, DataLoader, Dataset

BASE = Path(__file__).resolve().parent.parent
SPARSE = ("user_id", "item_id", "brand", "category", "device", "hour")


def bucketize(column, text, n):
    if not text:
        return 0
    return 1 + crc32("{}={}".format(column, text).encode()) % (n - 1)


def read_frames(opts):
    goods = pd.read_csv(BASE / opts["items"], dtype=str, keep_default_na=False)
    log = pd.read_csv(BASE / opts["impressions"], dtype=str, keep_default_na=False)
    log["session"] = log["session"].astype("int64")
    log["click"] = log["click"].astype("int64")
    log = log.merge(goods, on="item_id", how="left", sort=False)
    fitted = log["session"] < opts["train_sessions"]
    return goods, log[fitted].reset_index(drop=True), log[~fitted].reset_index(drop=True)


class Statistics:
    """Whatever has to be learnt from the training part before a row can be encoded."""

    def __init__(self, train, n_goods, opts):
        known = pd.to_numeric(train["age"][train["age"] != ""])
        self.age = float(known.median())
        self.seen = Counter(train["item_id"])
        self.hits = Counter(train["item_id"][train["click"] == 1])
        self.alpha, self.beta = opts["prior_clicks"], opts["prior_views"]
        self.total = len(train) + n_goods
        raw = self.raw(train)
        self.center = raw.mean(axis=0)
        self.scale = raw.std(axis=0)

    def raw(self, frame):
        price = np.log1p(frame["price"].astype("float64").to_numpy())
        age = pd.to_numeric(frame["age"]).fillna(self.age).to_numpy()
        rate = np.array([(self.hits[i] + self.alpha) / (self.seen[i] + self.beta) for i in frame["item_id"]])
        dwell = np.sqrt(frame["dwell"].astype("float64").to_numpy())
        place = 1.0 / np.log2(frame["position"].astype("float64").to_numpy() + 1.0)
        return np.stack([price, age, rate, dwell, place], axis=1)

    def log_popularity(self, frame):
        return np.log(np.array([self.seen[i] + 1 for i in frame["item_id"]]) / self.total)


class ClickFrame(Dataset):
    def __init__(self, opts, split):
        super().__init__()
        goods, train, val = read_frames(opts)
        stats = Statistics(train, len(goods), opts)
        frame = train if split == "train" else val
        self.dense = ((stats.raw(frame) - stats.center) / (stats.scale + 1e-6)).astype("float32")
        self.logq = stats.log_popularity(frame).astype("float32")
        frame["hour"] = (frame["hour"].astype("int64") // 4).astype(str)
        n = opts["buckets"]
        self.sparse = np.stack(
            [np.array([bucketize(c, v, n[c]) for v in frame[c]], dtype="int64") for c in SPARSE], axis=1
        )
        keep = opts["history_len"]
        self.history = np.zeros((len(frame), keep), dtype="int64")
        for row, text in enumerate(frame["history"]):
            past = [bucketize("item_id", t, n["item_id"]) for t in text.split("|") if t][-keep:]
            self.history[row, : len(past)] = past
        self.click = frame["click"].to_numpy().astype("float32")
        self.session = frame["session"].to_numpy()

    def __len__(self):
        return len(self.click)

    def __getitem__(self, i):
        target = dict(click=self.click[i], session=self.session[i], item=self.sparse[i, 1], logq=self.logq[i])
        return dict(dense=self.dense[i], sparse=self.sparse[i], history=self.history[i], labels=target)


def make_loader(opts, split):
    frame = ClickFrame(opts, split)
    sampler = BatchSampler(frame, shuffle=False, batch_size=opts["batch_size"], drop_last=(split == "train"))
    return DataLoader(frame, batch_sampler=sampler, return_list=True)
