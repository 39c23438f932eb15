"""Everything that is read from data/: settings, features of books, ratings, the graph, the lists for training and test."""
import configparser
import csv
import os

import numpy as np
from paddle.io import BatchSampler, DataLoader, Dataset

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.normpath(os.path.join(HERE, "..", "..", "data"))


def options():
    ini = configparser.ConfigParser()
    with open(os.path.join(FOLDER, "settings.ini")) as f:
        ini.read_file(f)
    return ini


def table(name):
    with open(os.path.join(FOLDER, name + ".csv"), newline="") as f:
        header, *lines = list(csv.reader(f))
    return {column: [line[i] for line in lines] for i, column in enumerate(header)}


class Shelf:
    def __init__(self, ini):
        self.ini = ini
        books = table("books")
        self.titles = books["book"]
        number = {title: i for i, title in enumerate(self.titles)}
        self.genre_names, genre = np.unique(books["genre"], return_inverse=True)
        self.genre = genre.astype("int64")
        price = np.log(np.array(books["price"], dtype="float64"))
        self.price = (price - np.mean(price)) / np.std(price)

        lists = table("negatives")
        self.people = sorted(lists["user"])
        self.person = {name: i for i, name in enumerate(self.people)}
        columns = [[number[b] for b in lists[c]] for c in lists if c != "user"]
        self.negatives = np.empty((len(self.people), len(columns)), "int64")
        self.negatives[[self.person[name] for name in lists["user"]]] = np.array(columns).T

        def events(name):
            t = table(name)
            return np.stack([
                [self.person[u] for u in t["user"]], [number[b] for b in t["book"]],
                np.array(t["stars"], "int64"), np.array(t["day"], "int64"),
            ], axis=1)

        self.read = events("ratings")
        self.held_out = events("holdout")
        self.liked = self.read[self.read[:, 2] >= ini.getint("graph", "min_stars")]

    def adjacency(self):
        """Dense normalised matrix [people, books]."""
        who, what, stars, day = self.liked[:, 0], self.liked[:, 1], self.liked[:, 2], self.liked[:, 3]
        age = (day.max() - day) / self.ini.getfloat("graph", "half_life")
        matrix = np.zeros((len(self.people), len(self.titles)))
        np.add.at(matrix, (who, what), stars / 5.0 * np.exp2(-age))
        rows = np.sqrt(matrix.sum(axis=1, keepdims=True))
        columns = np.sqrt(matrix.sum(axis=0, keepdims=True))
        scale = np.divide(1.0, rows * columns, out=np.zeros_like(matrix), where=rows * columns > 0)
        return (matrix * scale).astype("float32")


class Lists(Dataset):
    """For training one rated book and a few negatives; for test up to three held-out books and all negatives."""

    def __init__(self, shelf, split):
        super().__init__()
        self.shelf, self.training = shelf, split == "train"
        if self.training:
            self.entries = shelf.liked
            self.width = shelf.ini.getint("training", "negatives")
        else:
            self.entries = sorted(set(shelf.held_out[:, 0].tolist()))

    def __len__(self):
        return len(self.entries)

    def _train_item(self, i):
        who, what, stars, _ = self.entries[i]
        pool = self.shelf.negatives[who]
        negatives = [pool[(i + k) % pool.size] for k in range(self.width)]
        return who, [what] + negatives, [stars] + [0] * self.width

    def _test_item(self, i):
        who = self.entries[i]
        own = [(int(e[1]), int(e[2])) for e in self.shelf.held_out if e[0] == who]
        own = sorted(own, key=lambda pair: -pair[1])[:3]
        own += [(0, -1)] * (3 - len(own))
        negatives = self.shelf.negatives[who].tolist()
        return who, [b for b, _ in own] + negatives, [s for _, s in own] + [0] * len(negatives)

    def __getitem__(self, i):
        who, what, stars = self._train_item(i) if self.training else self._test_item(i)
        return {
            "readers": np.int64(who),
            "books": np.array(what, dtype="int64"),
            "labels": np.array(stars, dtype="float32"),
        }


class Shuffled(BatchSampler):
    def __init__(self, n, batch_size, seed):
        self.n, self.batch_size, self.seed, self.epoch = n, batch_size, seed, 0

    def __len__(self):
        return self.n // self.batch_size

    def __iter__(self):
        order = np.random.RandomState(self.seed + self.epoch).permutation(self.n)
        for start in range(0, len(self) * self.batch_size, self.batch_size):
            yield order[start:start + self.batch_size].tolist()


def batches(shelf, split):
    lists, training = Lists(shelf, split), shelf.ini["training"]
    size = training.getint("batch_size")
    if split == "train":
        return DataLoader(lists, batch_sampler=Shuffled(len(lists), size, training.getint("seed")))
    return DataLoader(lists, batch_size=size)
