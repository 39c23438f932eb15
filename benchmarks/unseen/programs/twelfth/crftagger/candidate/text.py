"""From CoNLL files to padded arrays of numbers."""
import itertools

import numpy as np
from paddle.io import DataLoader, Dataset

from options import DATA, section

CFG = section("text")
DIGITS = str.maketrans("0123456789", "0000000000")


def lines(name):
    return (DATA / name).read_text(encoding="utf-8").splitlines()


WORDS = {w: i for i, w in enumerate(lines("words.txt"))}
CHARS = {c: i for i, c in enumerate(lines("chars.txt"))}
TAGS = lines("tags.txt")
TAG_IDS = {t: i for i, t in enumerate(TAGS)}


def read(split):
    rows = [r.strip() for r in lines(split + ".conll") if not r.startswith("-DOCSTART-")]
    for full, group in itertools.groupby(rows, key=bool):
        if full:
            yield [r.split("\t") for r in group]


def spell(token):
    ids = [CHARS.get(c, CHARS["<unk>"]) for c in token[: CFG["max_word"]]]
    return ids + [CHARS["<pad>"]] * (CFG["max_word"] - len(ids))


def numbers(tokens):
    words = [WORDS.get(t.lower().translate(DIGITS), WORDS["<unk>"]) for t in tokens]
    return {
        "words": np.array(words, dtype="int64"),
        "chars": np.array([spell(t) for t in tokens], dtype="int64"),
    }


def pad(samples):
    width = max(len(s["words"]) for s in samples)
    fill = {"words": WORDS["<pad>"], "chars": CHARS["<pad>"], "labels": CFG["ignore"]}
    batch = {}
    for key in samples[0]:
        rows = []
        for s in samples:
            value = s[key]
            room = [(0, width - len(value))] + [(0, 0)] * (value.ndim - 1)
            rows.append(np.pad(value, room, constant_values=fill[key]))
        batch[key] = np.stack(rows)
    return batch


class Sentences(Dataset):
    def __init__(self, split):
        super().__init__()
        self.examples = []
        for block in read(split):
            tokens, tags = [r[0] for r in block], [r[1] for r in block]
            labels = np.array([TAG_IDS[t] for t in tags], dtype="int64")
            self.examples.append({**numbers(tokens), "labels": labels})

    def __getitem__(self, i):
        return self.examples[i]

    def __len__(self):
        return len(self.examples)


def batches(split):
    return DataLoader(Sentences(split), batch_size=CFG["batch"], shuffle=False, collate_fn=pad, drop_last=False)
