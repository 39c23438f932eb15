"""Pairs of written date and ISO date; batches of about equal numbers of tokens."""
import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, Sampler

from .vocabulary import BOS, DATA, EOS, PAD, normalise


class DatePairs(Dataset):
    def __init__(self, split, vocabulary, max_source):
        self.pairs = []
        with open(DATA / f"{split}.tsv") as handle:
            for line in handle:
                written, iso = line.rstrip("\n").split("\t")
                source = vocabulary.encode(normalise(written))[:max_source] + [EOS]
                self.pairs.append((source, [BOS] + vocabulary.encode(iso) + [EOS]))

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, index):
        source, target = self.pairs[index]
        return torch.tensor(source), torch.tensor(target)


class TokenBatches(Sampler):
    """Sorts by length (longest first), fills batches up to a number of padded tokens; training shuffles the batches."""

    def __init__(self, dataset, tokens, seed=None):
        order = sorted(range(len(dataset)), key=lambda i: (-len(dataset.pairs[i][0]), i))
        self.batches, self.seed, self.epoch = [], seed, 0
        batch, longest = [], 0
        for i in order:
            length = len(dataset.pairs[i][0])
            if batch and (len(batch) + 1) * max(longest, length) > tokens:
                self.batches.append(batch)
                batch, longest = [], 0
            batch.append(i)
            longest = max(longest, length)
        self.batches.append(batch)

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        order = np.arange(len(self.batches))
        if self.seed is not None:
            np.random.RandomState(self.seed + self.epoch).shuffle(order)
        return iter([self.batches[i] for i in order])


def collate(samples):
    sources, targets = zip(*samples)
    source = pad_sequence(sources, batch_first=True, padding_value=PAD)
    target = pad_sequence(targets, batch_first=True, padding_value=PAD)
    return source, target[:, :-1], target[:, 1:]


def make_loader(split, vocabulary, config):
    dataset = DatePairs(split, vocabulary, config["max_source"])
    seed = config["batch"]["seed"] if split == "train" else None
    batches = TokenBatches(dataset, config["batch"]["tokens"], seed)
    return DataLoader(dataset, batch_sampler=batches, collate_fn=collate)
