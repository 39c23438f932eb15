import json
import re
import zlib

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


def word_ids(clue, buckets, size):
    words = re.findall(r"[a-z']+", clue.lower())[:size]
    ids = [1 + zlib.crc32(w.encode()) % buckets for w in words]
    return np.array(ids + [0] * (size - len(ids)), dtype=np.int64)


def pattern_ids(text, slots):
    ids = [1 if c == "?" else ord(c) - ord("A") + 2 for c in text]
    return np.array(ids + [0] * (slots - len(ids)), dtype=np.int64)


def flags_of(clue):
    return np.array([clue.endswith("?"), "abbr." in clue.lower()], dtype=np.float32)


class Clues(Dataset):
    def __init__(self, cfg, split):
        self.cfg = cfg
        rows = [r for r in json.load(open(cfg["file"])) if r["page"] == split]
        if split == "train":
            order = np.random.RandomState(cfg["order_seed"]).permutation(len(rows))
            rows = [rows[i] for i in order]
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row, cfg = self.rows[i], self.cfg
        answer = row["answer"]
        text = "".join(c if j in row["known"] else "?" for j, c in enumerate(answer))
        target = [-100 if j in row["known"] else ord(c) - ord("A") for j, c in enumerate(answer)]
        target += [-100] * (cfg["slots"] - len(target))
        return {
            "clue": word_ids(row["clue"], cfg["buckets"], cfg["clue_len"]),
            "pattern": pattern_ids(text, cfg["slots"]),
            "flags": flags_of(row["clue"]),
            "labels": {"letters": np.array(target, dtype=np.int64), "hard": np.float32((row["stars"] - 1) / 4)},
        }


def loader(cfg, split):
    return DataLoader(Clues(cfg, split), batch_size=cfg["batch"], shuffle=False, drop_last=split == "train")


def puzzle(path, cfg):
    rows = json.load(open(path))
    batch = {
        "clue": np.stack([word_ids(r["clue"], cfg["buckets"], cfg["clue_len"]) for r in rows]),
        "pattern": np.stack([pattern_ids(r["pattern"], cfg["slots"]) for r in rows]),
        "flags": np.stack([flags_of(r["clue"]) for r in rows]),
    }
    return rows, {k: torch.from_numpy(v) for k, v in batch.items()}
