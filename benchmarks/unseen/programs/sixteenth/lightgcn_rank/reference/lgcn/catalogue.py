"""The tables: books with their features, readers, ratings, the fixed table of negatives."""
import csv

import numpy as np

from .config import DATA


def rows(name):
    with open(DATA / name, newline="") as handle:
        yield from csv.DictReader(handle)


class Catalogue:
    def __init__(self, config):
        books = list(rows("books.csv"))
        self.books = [row["book"] for row in books]
        self.book_index = {book: i for i, book in enumerate(self.books)}
        self.genres = sorted({row["genre"] for row in books})
        self.genre = np.array([self.genres.index(row["genre"]) for row in books])
        log_price = np.log([float(row["price"]) for row in books])
        self.price = ((log_price - log_price.mean()) / log_price.std()).astype(np.float32)

        negatives = list(rows("negatives.csv"))
        self.readers = sorted(row["user"] for row in negatives)
        self.reader_index = {reader: i for i, reader in enumerate(self.readers)}
        self.negatives = np.zeros((len(self.readers), len(negatives[0]) - 1), dtype=np.int64)
        for row in negatives:
            reader = self.reader_index[row.pop("user")]
            self.negatives[reader] = [self.book_index[book] for book in row.values()]

        self.ratings = self._ratings("ratings.csv")
        self.holdout = self._ratings("holdout.csv")
        self.config = config

    def _ratings(self, name):
        return np.array([
            (self.reader_index[row["user"]], self.book_index[row["book"]], int(row["stars"]), int(row["day"]))
            for row in rows(name)
        ])

    def edges(self):
        """Reader, book and weight of each edge: stars / 5, halved every half_life days, symmetrically normalised."""
        kept = self.ratings[self.ratings[:, 2] >= self.config.min_stars]
        readers, books, stars, days = kept.T
        age = days.max() - days
        weight = stars / 5.0 * 0.5 ** (age / self.config.half_life)
        reader_degree = np.bincount(readers, weight, len(self.readers))
        book_degree = np.bincount(books, weight, len(self.books))
        weight = weight / np.sqrt(reader_degree[readers] * book_degree[books])
        return readers, books, weight.astype(np.float32)
