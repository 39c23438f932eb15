"""Pages of words with boxes as arrays."""
import json
from binascii import crc32

import numpy as np
from paddle.io import DataLoader, Dataset

from .catalogue import FOLDER, SETTINGS

PAGE = SETTINGS["page"]
FILE = FOLDER.parent / "data" / "invoices.json"


def gram_ids(word):
    text = "<" + word.lower() + ">"
    grams = map("".join, zip(text, text[1:], text[2:]))
    return [1 + crc32(g.encode()) % (PAGE["vocabulary"] - 1) for g in grams]


def look(word):
    n = len(word)
    return (
        sum(map(str.isdigit, word)) / n,
        (n - sum(map(str.isalnum, word))) / n,
        word[:1].isupper(),
        word.isupper(),
        min(n / 12.0, 1.0),
    )


def padded(rows, width, dtype):
    table = np.zeros((PAGE["most_words"], width), dtype=dtype)
    for line, row in zip(table, rows):
        line[:min(len(row), width)] = row[:width]
    return table


def page_arrays(page):
    words = [w[0] for w in page["words"]][:PAGE["most_words"]]
    present = np.arange(PAGE["most_words"]) < len(words)
    return dict(
        grams=padded([gram_ids(w) for w in words], PAGE["grams_a_word"], "int64"),
        looks=padded([look(w) for w in words], 5, "float32"),
        boxes=padded([w[1:] for w in page["words"]], 4, "int64"),
        present=present.astype("float32"),
    )


def answer(page):
    n = PAGE["most_words"]
    table = np.zeros((len(SETTINGS["fields"]), n, n), dtype="float32")
    table[tuple(np.array(page["fields"]).T)] = 1
    return table


class Pages(Dataset):
    def __init__(self, split):
        super().__init__()
        everything = json.loads(FILE.read_text())
        self.pages = list(filter(lambda page: page["split"] == split, everything))

    def __len__(self):
        return len(self.pages)

    def __getitem__(self, k):
        return dict(page_arrays(self.pages[k]), labels=answer(self.pages[k]))


def feed(split):
    return DataLoader(Pages(split), batch_size=PAGE["batch"], shuffle=False, drop_last=False)
