"""Batches that are padded otherwise: at which end, with what, how far; and batches that differ for another reason."""

from __future__ import annotations

import linecache
import random

import numpy as np
import pytest

from paralign import Side, check
from paralign.model import ALIGNED, DIVERGED, SourceLine
from paralign.stages.data.padding import recognised


class Lines:
    """Sequences of 3 to 9 numbers, of ``width`` features each."""

    def __init__(self, width=0):
        self.width = width

    def __len__(self):
        return 24

    def __getitem__(self, index):
        drawn = np.random.RandomState(index)
        shape = (drawn.randint(3, 10), *([self.width] if self.width else []))
        return drawn.randint(1, 50, shape)


class Loader:
    """As frameworks have them: a data set, a sampler of batches, and a function that puts samples together."""

    def __init__(self, dataset, collate, *, shuffle):
        self.dataset, self.collate_fn, self.shuffle = dataset, collate, shuffle
        self.batch_size, self.batch_sampler = 4, Batches(dataset, shuffle)

    def __len__(self):
        return len(self.dataset) // 4

    def __iter__(self):
        for indices in self.batch_sampler:
            yield self.collate_fn([self.dataset[index] for index in indices])


class Batches:
    batch_size = 4

    def __init__(self, dataset, shuffle):
        self.dataset, self.shuffle = dataset, shuffle

    def __len__(self):
        return len(self.dataset) // 4

    def __iter__(self):
        order = list(range(len(self.dataset)))
        if self.shuffle:
            random.shuffle(order)
        return iter([order[start : start + 4] for start in range(0, len(order), 4)])


def padding(width=None, value=0, begin=False, cut=None, scale=1):
    """A function that pads samples."""

    def collate(samples):
        samples = [sample[:cut] for sample in samples]
        longest = width or max(map(len, samples))
        out = np.full((len(samples), longest, *samples[0].shape[1:]), value, "int64")
        for row, sample in zip(out, samples, strict=True):
            if begin:
                row[longest - len(sample) :] = sample * scale
            else:
                row[: len(sample)] = sample * scale
        return out

    return collate


def checked(ours, theirs, *, shuffle=False, width=0):
    def side(collate):
        functions = {
            "build_dataset": lambda _split: Lines(width),
            "build_dataloader": lambda _split: Loader(Lines(width), collate, shuffle=shuffle),
        }
        return Side(framework="numpy", functions=functions)

    return check(side(ours), side(theirs), stages=["data"])["data"]


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("width", [0, 3])
@pytest.mark.parametrize(
    ("changes", "rules", "told"),
    [
        ({"begin": True}, ["data/padding-end"], "pads them at the end, the candidate at the beginning"),
        ({"value": 7}, ["data/padding-value"], "pads them with 0, the candidate with 7"),
        ({"width": 12}, ["data/padding-length"], "the candidate's of length 12"),
        ({"width": 12, "value": -1}, ["data/padding-value", "data/padding-length"], "the candidate with -1"),
        ({"width": 12, "begin": True}, ["data/padding-end", "data/padding-length"], "the candidate at the beginning"),
        ({"cut": 5}, ["data/padding-length"], "the candidate's of length 5; what is longer is cut off"),
    ],
    ids=["beginning", "value", "length", "value and length", "beginning and length", "cut"],
)
def test_padding_is_said_with_the_collate_functions(changes, rules, told, shuffle, width):
    result = checked(padding(), padding(**changes), shuffle=shuffle, width=width)
    assert result.verdict == DIVERGED
    assert [(f.rule, f.proven) for f in result.findings] == [(rule, True) for rule in rules], result.findings
    assert told in result.findings[0].cause
    for end in (result.divergence.reference, result.divergence.candidate):
        place = SourceLine.of(end.source)
        assert place.file == __file__
        assert "samples" in "".join(linecache.getlines(place.file)[place.line - 1 : place.line + 9])


def test_shuffled_batches_of_one_width_are_compared_as_a_set_and_explained_all_the_same():
    result = checked(padding(width=12), padding(width=12, value=7), shuffle=True)
    assert (result.verdict, [f.rule for f in result.findings]) == (DIVERGED, ["data/padding-value"])
    assert SourceLine.of(result.divergence.candidate.source).file == __file__


@pytest.mark.parametrize("shuffle", [False, True])
def test_equal_padding_says_nothing(shuffle):
    result = checked(padding(begin=True), padding(begin=True), shuffle=shuffle)
    assert (result.verdict, result.findings) == (ALIGNED, [])


@pytest.mark.parametrize("changes", [{"scale": 2}, {"scale": 2, "begin": True}, {"scale": -1, "width": 12}])
def test_other_values_are_no_padding(changes):
    result = checked(padding(), padding(**changes))
    assert result.verdict == DIVERGED
    assert not [f for f in result.findings if f.rule.startswith("data/padding")], result.findings


def test_what_cannot_be_padding_is_left_alone():
    one = np.arange(1, 13).reshape(3, 4)
    for other in (one[:, ::-1], one[::-1], one[:2], one.astype(str), one[None], one + 1, one[:, :0], np.full((3, 4), np.nan), one):
        assert recognised([(one, other)]) is None, other
    assert recognised([(np.zeros((2, 0)), np.zeros((2, 3)))]) is None
    ends = np.array([[1, 2, 0], [3, 0, 0]]), np.array([[1, 2, 8], [3, 9, 9]])  # two values beside the content
    assert recognised([ends]) is None
    known = np.array([[np.nan, 2, 0], [np.nan, 0, 0]]), np.array([[np.nan, 2, 5], [np.nan, 5, 5]])
    assert recognised([known]).values == ({0.0}, {5.0})


@pytest.mark.parametrize(
    ("ones", "others"),
    [
        ([[[3, 1], [4, 1]]] * 2, [[[3, 0], [4, 0]]] * 2),  # a column of a bias
        ([[[3, 4, 5, 9]], [[3, 4, 6, 9]]], [[[3, 4, 5, 8]], [[3, 4, 6, 8]]]),
        ([[[1, 3, 4], [1, 5, 6]]] * 2, [[[3, 4, 1], [5, 6, 1]]] * 2),  # the same, moved from the first place to the last
    ],
)
def test_constant_columns_are_no_padding(ones, others):
    assert recognised([(np.array(one), np.array(other)) for one, other in zip(ones, others, strict=True)]) is None


def test_nan_may_be_what_is_padded_with():
    nan = float("nan")
    longer = recognised([(np.array([[1, 2, nan], [3, nan, nan]]), np.array([[1, 2, nan, nan], [3, nan, nan, nan]]))])
    assert not longer.cut
    other = recognised([(np.array([[1, 2, nan], [3, nan, nan]]), np.array([[1, 2, 0], [3, 0, 0]]))])
    assert [len(values) for values in other.values] == [1, 1]
    assert other.values[1] == {0.0}


def test_batches_for_which_all_tries_would_take_long_are_not_tried():
    one = np.zeros((2, 4000, 80), np.float32)
    assert recognised([(one, one + 1)]) is None
