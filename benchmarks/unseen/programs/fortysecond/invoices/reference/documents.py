import json
import os
import zlib

import numpy as np
from torch.utils.data import DataLoader, Dataset

from .registry import CONFIG, HERE

DATA = os.path.join(HERE, "..", "data")


def trigrams(word):
    padded = f"<{word.lower()}>"
    return [padded[i:i + 3] for i in range(len(padded) - 2)]


def hashed(gram):
    """1 .. hash_size - 1; nought is padding."""
    return zlib.crc32(gram.encode()) % (CONFIG["data"]["hash_size"] - 1) + 1


def shape_of(word):
    digits = sum(c.isdigit() for c in word)
    marks = sum(not c.isalnum() for c in word)
    return [digits / len(word), marks / len(word), float(word[0].isupper()), float(word.isupper()),
            min(len(word), 12) / 12.0]


def encode(document):
    size, per_word = CONFIG["data"]["words"], CONFIG["data"]["grams"]
    grams = np.zeros((size, per_word), "int64")
    looks = np.zeros((size, 5), "float32")
    boxes = np.zeros((size, 4), "int64")
    present = np.zeros(size, "float32")
    for i, (word, *box) in enumerate(document["words"][:size]):
        ids = [hashed(g) for g in trigrams(word)][:per_word]
        grams[i, :len(ids)] = ids
        looks[i] = shape_of(word)
        boxes[i] = box
        present[i] = 1.0
    return {"grams": grams, "looks": looks, "boxes": boxes, "present": present}


def spans(document):
    size = CONFIG["data"]["words"]
    table = np.zeros((len(CONFIG["fields"]), size, size), "float32")
    for field, first, last in document["fields"]:
        table[field, first, last] = 1.0
    return table


class Invoices(Dataset):
    def __init__(self, split):
        with open(os.path.join(DATA, "invoices.json")) as f:
            self.documents = [d for d in json.load(f) if d["split"] == split]

    def __len__(self):
        return len(self.documents)

    def __getitem__(self, index):
        document = self.documents[index]
        return {**encode(document), "labels": spans(document)}


def loader(split):
    return DataLoader(Invoices(split), batch_size=CONFIG["data"]["batch_size"], shuffle=False)
