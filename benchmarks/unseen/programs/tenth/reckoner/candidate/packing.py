"""Packs short documents into rows of equal length."""
import numpy as np
from paddle.io import DataLoader, Dataset

from .tokens import BOS_ID, EOS_ID, IGNORE_INDEX, PAD_ID, read_documents, tokenize

MAX_LEN = 44


def supervise(prompt, answer):
    source = [BOS_ID] + tokenize(prompt) + tokenize(answer) + [EOS_ID]
    labels = np.array(source[1:], dtype="int64")
    labels[:len(prompt)] = IGNORE_INDEX
    return np.array(source[:-1], dtype="int64"), labels


class PackedDocuments(Dataset):
    def __init__(self, split, max_len=MAX_LEN):
        super().__init__()
        self.max_len = max_len
        self.bins = [[]]
        used = 0
        for prompt, answer in read_documents(split):
            example = supervise(prompt, answer)
            size = len(example[0])
            if used + size > max_len:
                self.bins.append([])
                used = 0
            self.bins[-1].append(example)
            used += size

    def __len__(self):
        return len(self.bins)

    def _fill(self, arrays, value):
        row = np.full([self.max_len], value, dtype="int64")
        flat = np.concatenate(arrays)
        row[:flat.size] = flat
        return row

    def __getitem__(self, index):
        examples = self.bins[index]
        sizes = [len(ids) for ids, _ in examples]
        return {
            "tokens": self._fill([ids for ids, _ in examples], PAD_ID),
            "segments": self._fill([np.full([n], k + 1) for k, n in enumerate(sizes)], 0),
            "positions": self._fill([np.arange(n) for n in sizes], 0),
            "labels": self._fill([labels for _, labels in examples], IGNORE_INDEX),
        }


def create_loader(split, batch_size=3):
    return DataLoader(PackedDocuments(split), batch_size=batch_size, shuffle=False, drop_last=False)
