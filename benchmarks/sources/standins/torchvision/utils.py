"""In place of a file that draws on images: the two functions that networks use, as torchvision has them."""

import collections
from itertools import repeat


def _log_api_usage_once(obj):
    pass


def _make_ntuple(x, n):
    if isinstance(x, collections.abc.Iterable):
        return tuple(x)
    return tuple(repeat(x, n))
