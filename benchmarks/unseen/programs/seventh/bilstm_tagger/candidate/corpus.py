"""Reading of CoNLL files, indices, batches."""
import pathlib
import string
from collections import defaultdict

import numpy as np
import paddle

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "data"
TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
IGNORED = -100
WORD_LENGTH = 9
DIGITS = str.maketrans(string.digits, "0" * 10)


def fold(token):
    return token.lower().translate(DIGITS)


def sentences(split):
    text = (FOLDER / (split + ".conll")).read_text(encoding="utf-8")
    for block in text.split("\n\n"):
        rows = [line.split("\t") for line in block.splitlines() if line]
        if rows:
            yield [r[0] for r in rows], [r[1] for r in rows]


def token_index(least=2):
    seen = defaultdict(int)
    for tokens, _ in sentences("train"):
        for token in tokens:
            seen[fold(token)] += 1
    frequent = [t for t in seen if seen[t] >= least]
    frequent.sort()
    frequent.sort(key=seen.get, reverse=True)
    return {t: i for i, t in enumerate(frequent, start=2)}


TOKENS = token_index()
LETTERS = {c: i + 2 for i, c in enumerate(sorted(string.ascii_letters + string.digits + string.punctuation))}


class Corpus(paddle.io.Dataset):
    def __init__(self, split):
        super().__init__()
        self.rows = list(sentences(split))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        tokens, tags = self.rows[index]
        ids = np.array([TOKENS.get(fold(t), 1) for t in tokens], "int64")
        letters = np.zeros((len(tokens), WORD_LENGTH), "int64")
        for row, token in zip(letters, tokens):
            for place, letter in enumerate(token[:WORD_LENGTH]):
                row[place] = LETTERS.get(letter, 1)
        return ids, letters, np.array([TAGS.index(t) for t in tags], "int64")


def stack(rows):
    longest = max(len(ids) for ids, _, _ in rows)
    ids = np.zeros((len(rows), longest), "int64")
    letters = np.zeros((len(rows), longest, WORD_LENGTH), "int64")
    tags = np.full((len(rows), longest), IGNORED, "int64")
    for k, (i, l, t) in enumerate(rows):
        ids[k, :len(i)], letters[k, :len(i)], tags[k, :len(i)] = i, l, t
    return ids, letters, np.array([len(r[0]) for r in rows], "int64"), tags


def batches(split):
    return paddle.io.DataLoader(Corpus(split), batch_size=4, shuffle=split == "train", collate_fn=stack)
