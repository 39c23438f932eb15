"""The same content elsewhere: padded at another side or with another value, shifted, rolled, turned; and what is none of these."""

from __future__ import annotations

import re

import numpy as np
import pytest

from paralign import Side, check
from paralign.locate.data.array_difference import explain
from paralign.locate.data.moved_content import placed, placed_in_rows
from paralign.model import ALIGNED, DIVERGED
from paralign.report.translating import translated

MEAN, STD = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
SIZE = 32


def padded(index, rows="end", columns="end", value=0, size=SIZE, turn=lambda p: p):
    random = np.random.RandomState(index)
    picture = random.randint(0, 255, (*random.randint(12, 28, 2), 3)).astype("uint8")
    height, width = picture.shape[:2]
    out = np.zeros((size, size, 3), "uint8") + np.array(value, "uint8")
    top, left = ({"end": 0, "beginning": size - n, "centre": (size - n) // 2}[w] for w, n in ((rows, height), (columns, width)))
    out[top : top + height, left : left + width] = picture
    return ((turn(out).astype("float32") / 255 - MEAN) / STD).transpose(2, 0, 1)


class Pictures:
    def __init__(self, sample):
        self.sample = sample

    def __len__(self):
        return 12

    def __getitem__(self, index):
        return self.sample(index), index % 3


def compared(reference, candidate, *, batches):
    def side(sample):
        def loader(_):
            for first in range(0, 12, 4):
                yield np.stack([sample(n) for n in range(first, first + 4)]), np.arange(4)

        return Side(framework="numpy", functions={"build_dataloader": loader} if batches else {"build_dataset": lambda _: Pictures(sample)})

    return check(side(reference), side(candidate), stages=["data"])["data"]


@pytest.mark.parametrize("batches", [False, True])
@pytest.mark.parametrize(
    ("changes", "rule", "told"),
    [
        ({"rows": "beginning", "columns": "beginning"}, "data/padding-end", "the reference has 0 + 8, 0 + 5, the candidate 8 + 0, 5 + 0"),
        ({"columns": "beginning"}, "data/padding-end", "the reference has 0 + 8, 0 + 5, the candidate 0 + 8, 5 + 0"),
        ({"rows": "centre", "columns": "centre"}, "data/shifted", "the reference has 0 + 8, 0 + 5, the candidate 4 + 4, 2 + 3"),
        ({"value": 114}, "data/padding-value", "the reference pads with (-2.1179, -2.03571, -1.80444)"),
        ({"value": (124, 116, 104)}, "data/padding-value", "in the same place"),
        ({"rows": "beginning", "value": 114}, "data/padding-end", "the reference's values there are (-2.1179"),
    ],
)
def test_pictures_that_are_padded_otherwise_are_told_so(changes, rule, told, batches):
    stage = compared(padded, lambda index: padded(index, **changes), batches=batches)
    assert stage.verdict == DIVERGED
    assert [(f.rule, f.proven) for f in stage.findings] == [(rule, True)], stage.findings
    assert told in stage.findings[0].cause
    assert not re.search("[a-z]{4}", translated(stage.findings[0].cause.removeprefix("0: ")))


@pytest.mark.parametrize("batches", [False, True])
def test_equal_padding_says_nothing(batches):
    stage = compared(padded, padded, batches=batches)
    assert (stage.verdict, stage.findings) == (ALIGNED, [])


@pytest.mark.parametrize("batches", [False, True])
@pytest.mark.parametrize(
    "wrong",
    [
        lambda i: padded(i, rows="beginning") if i else np.sqrt(np.abs(padded(i))),
        lambda i: padded(i, rows="beginning") if i % 2 else padded(i) ** 2,
    ],
    ids=["all but one", "every other"],
)
def test_what_does_not_hold_in_all_samples_is_not_proven(wrong, batches):
    stage = compared(padded, wrong, batches=batches)
    assert stage.verdict == DIVERGED
    assert not [f for f in stage.findings if f.proven], stage.findings


PICTURE = np.random.RandomState(0).rand(24, 30, 3)


@pytest.mark.parametrize(
    ("candidate", "rule", "told"),
    [
        (np.roll(PICTURE, 5, 0), "rolled", "by 5 along axis 0"),
        (np.roll(PICTURE, (3, 7), (0, 1)), "rolled", "by 3 along axis 0, by 7 along axis 1"),
        (np.fft.fftshift(PICTURE, (0, 1)), "rolled", "by 12 along axis 0, by 15 along axis 1"),
        (np.rot90(PICTURE), "rotation", "90 degrees"),
        (np.rot90(PICTURE, 2), "rotation", "180 degrees"),
        (np.rot90(PICTURE, 3), "rotation", "270 degrees"),
        (PICTURE[np.random.RandomState(1).permutation(24)], "order", "rows in another order, along axis 0"),
    ],
)
def test_moves_are_experiments(candidate, rule, told):
    found = explain(None, PICTURE, candidate)
    assert (found.rule, found.proven) == (f"data/{rule}", True)
    assert told in found.cause


def test_values_that_are_scattered_over_a_picture_were_not_sorted():
    patches = PICTURE.reshape(4, 6, 5, 6, 3).transpose(2, 1, 0, 3, 4).reshape(PICTURE.shape)
    found = explain(None, PICTURE, patches)
    assert (found.rule, found.proven) == ("data/arrangement", False)
    assert "sort" not in found.cause + found.fix


def test_content_elsewhere_with_noise_is_not_explained():
    noise = np.random.RandomState(5).rand(3, SIZE, SIZE)
    assert explain(None, padded(1), padded(1, rows="beginning") + 0.01 * noise) is None
    assert explain(None, padded(1), np.random.RandomState(6).permutation(padded(1).ravel()).reshape(3, SIZE, SIZE)).proven is False


def test_a_sound_that_is_padded_at_the_other_end_and_a_list_that_is_sorted():
    sound = np.random.RandomState(3).randn(40)
    found = explain(None, np.pad(sound, (0, 9)), np.pad(sound, (9, 0)))
    assert (found.rule, found.proven) == ("data/padding-end", True)
    told = "before and behind it along axis 0 the reference has 0 + 9, the candidate 9 + 0"
    assert found.cause == f"the same content elsewhere: {told}"
    assert explain(None, np.array([1, 2, 3, 0]), np.arange(4)).rule == "data/order"


def test_dark_edges_of_a_picture_belong_to_it():
    picture = np.random.RandomState(4).randint(1, 9, (20, 20)).astype(float)
    picture[:3], picture[:, -2:] = 0, 0
    found = placed(np.pad(picture, (0, 6)), np.pad(picture, (0, 6), constant_values=7))
    assert (found.rule(), found.before, found.behind) == ("padding-value", ((0, 0), (0, 0)), ((6, 6), (6, 6)))
    assert placed(np.pad(picture, (0, 6)), np.pad(picture, ((6, 0), (6, 0)))).is_moved


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.zeros((8, 8)), np.zeros((8, 8))),
        (np.zeros((8, 8)), np.ones((8, 8))),
        (np.zeros(0), np.zeros(0)),
        (np.zeros((0, 3)), np.zeros((2, 3))),
        (np.float64(1), np.float64(2)),
        (np.array([1.0, 1, 1, 0, 0]), np.array([0.0, 0, 1, 1, 1])),  # a mask
        (np.array([5.0, 1, 2, 3]), np.array([1.0, 2, 3, 5])),  # one value more at an end is a value
        (np.where(np.eye(6) > 0, 255, 3.0), np.where(np.eye(6) > 0, 0, 3.0)),  # an ignored class that is numbered otherwise
        (PICTURE, PICTURE**2),
        (np.full((8, 8), np.nan), np.zeros((8, 8))),
    ],
)
def test_what_is_no_padding_is_left_alone(one, other):
    assert placed(one, other) is None
    assert placed(other, one) is None


def test_batches_with_one_other_sample_are_not_explained():
    one = np.stack([padded(n) for n in range(4)])
    other = np.stack([padded(n, rows="beginning") for n in range(4)])
    assert len(placed_in_rows([(one, other)])) == len(one)
    other[2] = other[2] ** 2
    assert placed_in_rows([(one, other)]) is None
    assert placed_in_rows([(one, other[:3])]) is None
    assert placed_in_rows([(one * np.nan, other)]) is None


def test_padding_that_one_side_alone_has_is_a_matter_of_shapes():
    sound = np.random.RandomState(3).randn(40)
    assert explain(None, sound, np.pad(sound, (0, 9))).rule == "data/shape"
    assert explain(None, np.pad(sound, (0, 5)), np.pad(sound, (9, 0))).rule == "data/padding-end"
