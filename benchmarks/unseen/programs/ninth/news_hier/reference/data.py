"""Documents in tab-separated files; batches of documents of like length."""
import functools
import os

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from .settings import HERE, settings
from .text import Vocabulary, sentences

FOLDER = os.path.join(os.path.dirname(HERE), "data")


def read(split):
    rows = []
    with open(os.path.join(FOLDER, f"news_{split}.tsv"), encoding="utf-8") as handle:
        for line in handle:
            label, text = line.rstrip("\n").split("\t", 1)
            rows.append((settings.loader.classes.index(label), text))
    return rows


@functools.lru_cache(maxsize=None)
def vocabulary():
    return Vocabulary([text for _, text in read("train")], settings.text.min_count, settings.text.vocabulary)


class News(Dataset):
    def __init__(self, split):
        self.rows = read(split)
        self.vocabulary = vocabulary()

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        label, text = self.rows[index]
        encoded = [self.vocabulary.encode(s) for s in sentences(text)]
        encoded = [s[: settings.text.max_words] for s in encoded[: settings.text.max_sentences]]
        return encoded, label

    def size(self, index):
        return sum(len(s) for s in self[index][0])


class ByLength(Sampler):
    """Batches of documents of similar size, longest first; ties keep the order of the file."""

    def __init__(self, dataset, batch):
        sizes = [dataset.size(i) for i in range(len(dataset))]
        order = sorted(range(len(dataset)), key=lambda i: -sizes[i])
        self.batches = [order[i : i + batch] for i in range(0, len(order), batch)]

    def __iter__(self):
        return iter(self.batches)

    def __len__(self):
        return len(self.batches)


def collate(samples):
    documents, labels = zip(*samples)
    count = max(len(d) for d in documents)
    width = max(len(s) for d in documents for s in d)
    tokens = np.zeros((len(documents), count, width), dtype="int64")
    word_lengths = np.zeros((len(documents), count), dtype="int64")
    for i, document in enumerate(documents):
        for j, sentence in enumerate(document):
            tokens[i, j, : len(sentence)] = sentence
            word_lengths[i, j] = len(sentence)
    return {
        "tokens": torch.from_numpy(tokens),
        "word_lengths": torch.from_numpy(word_lengths),
        "sentence_lengths": torch.tensor([len(d) for d in documents]),
        "labels": torch.tensor(labels),
    }


def loader(split):
    dataset = News(split)
    if split == "train":
        return DataLoader(dataset, batch_sampler=ByLength(dataset, settings.loader.batch), collate_fn=collate)
    return DataLoader(dataset, batch_size=settings.loader.batch, collate_fn=collate)
