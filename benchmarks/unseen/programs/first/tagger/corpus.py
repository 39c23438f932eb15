from collections import Counter

import numpy as np
from paddle.io import Dataset

LABELS = ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")


class Corpus:
    def __init__(self, path):
        with open(path) as f:
            blocks = [b for b in f.read().split("\n\n") if b.strip()]
        self.sentences = [[line.split() for line in b.strip().splitlines()] for b in blocks]
        freq = Counter(w for s in self.sentences for w, _ in s)
        kept = sorted(w for w, c in freq.items() if c > 1)
        self.words = {w: i for i, w in enumerate(["<pad>", "<unk>"] + kept)}

    def encode(self, words):
        return [self.words.get(w, 1) for w in words]

    def features(self, words):
        return [len(w) / 10 for w in words]


class Sentences(Dataset):
    def __init__(self, corpus, sentences):
        self.corpus, self.sentences = corpus, sentences

    def __getitem__(self, index):
        words, tags = zip(*self.sentences[index])
        return (
            np.asarray(self.corpus.encode(words), "int64"),
            np.asarray(self.corpus.features(words), "float32"),
            np.asarray([LABELS.index(t) for t in tags], "int64"),
        )

    def __len__(self):
        return len(self.sentences)


def pad(rows, value):
    longest = max(map(len, rows))
    return np.stack([np.pad(r, (0, longest - len(r)), constant_values=value) for r in rows])


def pad_batch(samples):
    ids, feats, tags = zip(*samples)
    return {
        "ids": pad(ids, 0),
        "feats": pad(feats, 0.0),
        "lengths": np.asarray([len(i) for i in ids], "int64"),
        "labels": pad(tags, -1),
    }
