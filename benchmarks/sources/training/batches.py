"""Loaders with a function that makes batches: each function gives what the batches are made of."""

from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, SequentialSampler

Pair = namedtuple("Pair", "x y")


@dataclass
class Held:
    x: Any
    y: Any


class Items(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.full((2,), float(index)), index


def _stacked(batch):
    return torch.stack([each[0] for each in batch]), [each[1] for each in batch]


def _named(batch):
    return Pair(*_stacked(batch))


def _held(batch):
    return Held(*_stacked(batch))


def _dict(batch):
    x, y = _stacked(batch)
    return OrderedDict(x=x, y=y, none=None, pair=("a", 3), array=np.arange(3), real=2.5, empty=[])


def _words(batch):
    return ["s%d" % each[1] for each in batch]


def _array(batch):
    return np.stack([each[0].numpy() for each in batch])


def _shown(value):
    if isinstance(value, torch.Tensor):
        return ["tensor", value.tolist()]
    if isinstance(value, np.ndarray):
        return ["array", value.tolist()]
    if isinstance(value, dict):
        return [type(value).__name__, *[[name, _shown(each)] for name, each in value.items()]]
    if isinstance(value, Held):
        return ["held", _shown(value.x), _shown(value.y)]
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *map(_shown, value)]
    return repr(value)


def _all(loader):
    found = [_shown(batch) for batch in loader]
    return [[float(ord(each)) for each in str(batch)] for batch in found]


def of_tuples():
    return _all(DataLoader(Items(), collate_fn=_stacked, batch_size=3))


def of_named_tuples():
    return _all(DataLoader(Items(), collate_fn=_named, batch_size=3))


def of_objects():
    return _all(DataLoader(Items(), collate_fn=_held, batch_size=3, drop_last=True))


def of_dicts_and_a_sampler():
    return _all(DataLoader(Items(), collate_fn=_dict, batch_size=3, sampler=SequentialSampler(range(4))))


def of_no_tensors():
    return _all(DataLoader(Items(), collate_fn=_words, batch_size=3))


def of_arrays_and_batches():
    return _all(DataLoader(Items(), collate_fn=_array, batch_sampler=[[0, 1], [2]]))


def of_samples():
    return _all(DataLoader(Items(), collate_fn=lambda batch: batch, batch_size=3))


def of_no_function():
    return _all(DataLoader(Items(), collate_fn=None, batch_size=3))
