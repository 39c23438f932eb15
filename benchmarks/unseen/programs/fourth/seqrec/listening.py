"""Data of the port. Users are sorted once; every sample is cut out of one padded array."""
import numpy as np
from paddle.io import BatchSampler, DataLoader, Dataset


class Listening(Dataset):
    def __init__(self, split, plays="plays.txt", negatives="negatives.txt", maxlen=12, least=5):
        super().__init__()
        table = np.loadtxt(plays, delimiter="\t", dtype="int64")
        table = table[np.lexsort((table[:, 1], table[:, 2], table[:, 0]))]
        self.maxlen = maxlen
        self.hold = 2 if split == "train" else 1
        self.items = int(table[:, 1].max())
        users, start, count = np.unique(table[:, 0], return_index=True, return_counts=True)
        self.lists = [(u, table[s:s + c, 1]) for u, s, c in zip(users, start, count) if c >= least]
        self.negatives = {}
        with open(negatives) as f:
            for line in f:
                user, train, ranking = line.rstrip("\n").split("|")
                self.negatives[int(user)] = (np.fromstring(train, "int64", sep=" "), np.fromstring(ranking, "int64", sep=" "))

    def __len__(self):
        return len(self.lists)

    def __getitem__(self, n):
        user, songs = self.lists[n]
        target = songs[-self.hold]
        upto = songs[:len(songs) - self.hold + 1]
        window = upto[-(self.maxlen + 1):]
        seq = pad_left(window[:-1], self.maxlen)
        pos = pad_left(window[1:], self.maxlen)
        train, ranking = self.negatives[int(user)]
        neg = np.resize(train, self.maxlen) * (pos > 0)
        cand = np.concatenate([[target], ranking])
        return {"seq": seq, "pos": pos, "neg": neg, "cand": cand, "labels": pos.copy()}


def pad_left(values, length):
    out = np.zeros(length, "int64")
    if len(values):
        out[-len(values):] = values
    return out


def loader(split, batch_size=6):
    data = Listening(split)
    sampler = BatchSampler(data, shuffle=False, batch_size=batch_size, drop_last=(split == "train"))
    return DataLoader(data, batch_sampler=sampler)
