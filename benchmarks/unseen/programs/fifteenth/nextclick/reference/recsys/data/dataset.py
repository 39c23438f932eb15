import numpy as np
import torch
from torch.utils.data import Dataset


def pad_left(values, length):
    values = values[-length:]
    return [0] * (length - len(values)) + list(values)


class SequenceDataset(Dataset):
    """Leave-one-out: the last click is for validation, the rest for training."""

    def __init__(self, log, split):
        self.split = split
        self.length = log.cfg.max_len
        self.k = log.cfg.train_negatives
        self.users = list(log.sequences)
        self.log = log

    def __len__(self):
        return len(self.users)

    def __getitem__(self, index):
        user = self.users[index]
        seq = self.log.sequences[user]
        table = self.log.negatives[user]
        if self.split == "train":
            source, target = seq[:-2], seq[1:-1]
            negatives = [
                [table[(t * self.k + j) % len(table)] for j in range(self.k)]
                for t in range(self.length)
            ]
        else:
            source = seq[:-1]
            target = [0] * (len(source) - 1) + seq[-1:]
            row = pad_left(table, 24)
            negatives = [row] * self.length
        return (
            np.asarray(pad_left(source, self.length), dtype=np.int64),
            np.asarray(pad_left(target, self.length), dtype=np.int64),
            np.asarray(negatives, dtype=np.int64),
        )


def collate(samples):
    source, target, negatives = zip(*samples)
    inputs = torch.from_numpy(np.stack(source))
    labels = {
        "target": torch.from_numpy(np.stack(target)),
        "negatives": torch.from_numpy(np.stack(negatives)),
    }
    return inputs, labels
