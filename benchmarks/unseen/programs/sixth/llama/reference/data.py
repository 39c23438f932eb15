from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

IGNORE = -100


class ByteWindows(Dataset):
    """Windows of bytes; the first `context` targets are not trained on, nor are line breaks."""

    def __init__(self, args, split):
        text = (Path(__file__).parent / "corpus.txt").read_bytes()
        cut = int(len(text) * (1 - args.val_fraction))
        self.data = np.frombuffer(text[:cut] if split == "train" else text[cut:], dtype=np.uint8)
        self.length, self.stride, self.context = args.seq_len, args.stride, args.context

    def __len__(self):
        return (len(self.data) - self.length - 1) // self.stride + 1

    def __getitem__(self, i):
        if i >= len(self):
            raise IndexError(i)
        start = i * self.stride
        chunk = torch.from_numpy(self.data[start : start + self.length + 1].astype(np.int64))
        x, y = chunk[:-1], chunk[1:].clone()
        if i > 0:
            y[: self.context] = IGNORE
        y[y == ord("\n")] = IGNORE
        return x, y


def make_loader(args, split):
    return DataLoader(ByteWindows(args, split), args.batch_size, shuffle=split == "train", drop_last=False)
