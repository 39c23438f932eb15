"""Functions of a split that take no argument, because there is one set of data only."""

from __future__ import annotations

import pytest

from paralign.errors import UsageError
from paralign.worker.sides.session import Session


def session(function):
    return Session("candidate", {"build_dataset": function}, "numpy")


def test_a_data_set_without_splits_is_built_whatever_the_split_is_called():
    assert session(lambda: [1, 2]).function("build_dataset")("val") == [1, 2]


def test_two_splits_of_a_function_that_takes_none_are_refused():
    one = session(lambda: [1, 2])
    one.function("build_dataset")("val")
    assert one.function("build_dataset")("val") == [1, 2]
    with pytest.raises(UsageError, match="takes no argument: it cannot give the splits 'val' and 'train'"):
        one.function("build_dataset")("train")


@pytest.mark.parametrize(
    "function",
    [lambda split: split, lambda split="train": split, lambda *parts: parts[0], lambda split, size=3: split[:size]],
    ids=range(4),
)
def test_a_function_that_takes_a_split_gets_it(function):
    assert session(function).function("build_dataset")("val") == "val"


def test_a_function_that_needs_something_else_fails_as_it_is_called():
    with pytest.raises(TypeError):
        session(lambda split, size: split * size).function("build_dataset")("val")
