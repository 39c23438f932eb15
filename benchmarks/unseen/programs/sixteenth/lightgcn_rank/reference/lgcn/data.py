import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

SLOTS = 3  # held-out books per reader, the rest is padding
PADDING = -1.0


class TrainPairs(Dataset):
    """A rated book and some of the reader's negatives, which change with the position of the rating."""

    def __init__(self, catalogue, config):
        self.catalogue, self.count = catalogue, config.negatives
        self.ratings = catalogue.ratings[catalogue.ratings[:, 2] >= config.min_stars]

    def __len__(self):
        return len(self.ratings)

    def __getitem__(self, index):
        reader, book, stars, _ = self.ratings[index]
        table = self.catalogue.negatives[reader]
        chosen = table[(index + np.arange(self.count)) % len(table)]
        relevance = np.zeros(1 + self.count, dtype=np.float32)
        relevance[0] = stars
        return {
            "readers": torch.tensor(reader),
            "books": torch.from_numpy(np.concatenate([[book], chosen])),
            "labels": torch.from_numpy(relevance),
        }


class RankingLists(Dataset):
    """All held-out books of a reader (at most SLOTS, best first) followed by all of its negatives."""

    def __init__(self, catalogue):
        self.catalogue = catalogue
        self.readers = np.unique(catalogue.holdout[:, 0])

    def __len__(self):
        return len(self.readers)

    def __getitem__(self, index):
        reader = self.readers[index]
        mine = self.catalogue.holdout[self.catalogue.holdout[:, 0] == reader]
        mine = mine[np.argsort(-mine[:, 2], kind="stable")][:SLOTS]
        books = np.zeros(SLOTS, dtype=np.int64)
        relevance = np.full(SLOTS, PADDING, dtype=np.float32)
        books[: len(mine)] = mine[:, 1]
        relevance[: len(mine)] = mine[:, 2]
        negatives = self.catalogue.negatives[reader]
        return {
            "readers": torch.tensor(reader),
            "books": torch.from_numpy(np.concatenate([books, negatives])),
            "labels": torch.from_numpy(np.concatenate([relevance, np.zeros(len(negatives), dtype=np.float32)])),
        }


class EpochSampler(torch.utils.data.Sampler):
    def __init__(self, length, seed):
        self.length, self.seed, self.epoch = length, seed, 0

    def __len__(self):
        return self.length

    def __iter__(self):
        order = np.random.RandomState(self.seed + self.epoch).permutation(self.length)
        return iter(order.tolist())


def dataset(catalogue, config, split):
    return TrainPairs(catalogue, config) if split == "train" else RankingLists(catalogue)


def loader(catalogue, config, split):
    data = dataset(catalogue, config, split)
    if split == "train":
        return DataLoader(data, config.batch_size, sampler=EpochSampler(len(data), config.seed), drop_last=True)
    return DataLoader(data, config.batch_size)
