"""Outputs and labels that a rank keeps for the metric over all ranks: they come back exactly as they were, or not at all."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

from paralign.capture import Capture, CaptureWriter
from paralign.dtypes import typed
from paralign.model import Manifest
from paralign.worker.ranks import share


class Tensor:
    """A framework's tensor, which is no array."""

    def __init__(self, array):
        self.array = np.asarray(array)


class Adapter:
    """What a framework does to tensors."""

    @staticmethod
    def is_tensor(value):
        return isinstance(value, Tensor)

    @staticmethod
    def to_array(tensor):
        return typed(tensor.array)

    @staticmethod
    def from_array(value):
        return Tensor(value.array)


class Out(NamedTuple):
    logits: object


@dataclass
class Boxes:
    corners: object


class Named(OrderedDict):
    """A mapping with attributes, as libraries return."""


SESSION = SimpleNamespace(adapter=Adapter)


def there_and_back(folder, batches):
    with CaptureWriter(folder / "capture", Manifest(side="reference", stage="distributed")) as writer:
        share.keep_evaluated(SESSION, writer, 0, batches)
    return share.kept_evaluated(SESSION, Capture.open(folder / "capture"))


def assert_same(one, other):
    assert type(one) is type(other)
    if isinstance(one, Tensor):
        assert_same(one.array, other.array)
    elif isinstance(one, dict):
        assert list(one) == list(other)
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for each in zip(one, other, strict=True):
            assert_same(*each)
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    else:
        assert one == other


@pytest.mark.parametrize(
    "labels",
    [
        Tensor([0, 1]),
        np.array([0, 1], np.int32),
        np.array(3.5),
        np.float32(0.25),
        {"y": Tensor([0.5]), "sizes": [(3, 4), (5, 6)], "name": "a.png", "none": None},
        [True, 7, -0.0, 2 + 1j, []],
    ],
    ids=["tensor", "array", "no axes", "scalar", "containers", "numbers"],
)
def test_batches_come_back_as_they_were(tmp_path, labels):
    batches = [(Tensor([[0.1, 0.9], [0.4, 0.6]]), labels), (Tensor([[1.0, 0.0]]), labels)]
    assert_same(there_and_back(tmp_path, batches), batches)


@pytest.mark.parametrize(
    "labels",
    [
        Path("a.png"),
        Out(Tensor([0])),
        Boxes(Tensor([0])),
        {0: Tensor([0])},
        Named(y=Tensor([0])),
        {"a": {"b": Tensor([0])}, "a.b": Tensor([1])},
        np.ma.masked_array([1, 2], [True, False]),
        np.zeros(share.KEPT // 8 + 1),
    ],
    ids=["no value", "named tuple", "dataclass", "number as key", "mapping with attributes", "equal paths", "mask", "large array"],
)
def test_what_would_come_back_otherwise_is_not_kept(tmp_path, labels):
    assert there_and_back(tmp_path, [(Tensor([0.5]), Tensor([1])), (Tensor([0.5]), labels)]) == []
