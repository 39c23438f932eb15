import json
import re
from zlib import crc32

import numpy as np
import paddle
from paddle.io import BatchSampler, DataLoader, Dataset

from .factory import SETTINGS

ENC, BATCHES = SETTINGS["encode"], SETTINGS["batches"]
WORD = re.compile("[a-z']+")
NOT_ASKED = -100


def padded(values, size, fill=0):
    row = np.full(size, fill, dtype="int64")
    row[: len(values)] = values
    return row


def encode(clue, pattern):
    """The three inputs of the network for a clue and a pattern like `O?TE?`."""
    low = clue.lower()
    hashed = [crc32(w.encode()) % ENC["hash_size"] + 1 for w in WORD.findall(low)]
    letters = ["?ABCDEFGHIJKLMNOPQRSTUVWXYZ".index(c) + 1 for c in pattern]
    return {
        "clue": padded(hashed[: ENC["max_words"]], ENC["max_words"]),
        "pattern": padded(letters, ENC["max_slots"]),
        "flags": np.array([clue[-1] == "?", "abbr." in low]).astype("float32"),
    }


class ClueSet(Dataset):
    def __init__(self, page):
        super().__init__()
        with open(SETTINGS["files"]["clues"]) as f:
            entries = [e for e in json.load(f) if e["page"] == page]
        if page == "train":
            rng = np.random.RandomState(BATCHES["permutation_seed"])
            entries = [entries[i] for i in rng.permutation(len(entries))]
        self.entries = entries

    def __getitem__(self, index):
        e = self.entries[index]
        given = set(e["known"])
        shown = "".join(c if j in given else "?" for j, c in enumerate(e["answer"]))
        asked = [NOT_ASKED if j in given else ord(c) - 65 for j, c in enumerate(e["answer"])]
        sample = encode(e["clue"], shown)
        sample["labels"] = {
            "letters": padded(asked, ENC["max_slots"], NOT_ASKED),
            "hard": np.float32((e["stars"] - 1) / 4),
        }
        return sample

    def __len__(self):
        return len(self.entries)


def batches_of(page):
    data = ClueSet(page)
    sampler = BatchSampler(data, batch_size=BATCHES["size"], shuffle=False, drop_last=page == "train")
    return DataLoader(data, batch_sampler=sampler, num_workers=0)


def read_puzzle(path):
    with open(path) as f:
        rows = json.load(f)
    coded = [encode(r["clue"], r["pattern"]) for r in rows]
    return rows, {k: paddle.to_tensor(np.stack([c[k] for c in coded])) for k in coded[0]}
