"""Validation data of one side that hold samples of its training data."""

from __future__ import annotations

import ast

import pytest

from paralign.api import check_project
from paralign.model import ALIGNED, DIVERGED, Finding, StageResult, Tolerance
from paralign.repair.edits.other_constant import _attribute_names
from paralign.stages.data import overlap

SIDE = """
import numpy as np

def rows(split):
    return [np.random.RandomState(number).randint(0, 99, 3 + number % 5) for number in (range(20) if split == "train" else range(20, 32))]

def build_dataset(split):
    return [(row, int(row.sum() % 3)) for row in READ]
"""

SETTINGS = """
stages = ["data"]
[reference]
module = "reference.py"
framework = "numpy"
[candidate]
module = "candidate.py"
framework = "numpy"
[data]
splits = ["train", "val"]
"""

RIGHT = "rows(split)"
WRONG = "(rows(split) if split == 'train' else rows(split)[:9] + rows('train')[4:7])"
TRAIN = "(rows(split) if split == 'val' else rows(split)[:18] + rows('val')[:2])"


def checked(folder, reference, candidate):
    for name, read in (("reference", reference), ("candidate", candidate)):
        (folder / f"{name}.py").write_text(SIDE.replace("READ", read))
    (folder / "paralign.toml").write_text(SETTINGS)
    return check_project(folder)[0]["data"]


@pytest.mark.parametrize(
    ("reference", "candidate", "said"),
    [
        (RIGHT, WRONG, "val: 3 of 12 samples of the candidate are samples of its split train too, 0 of those of the reference: 9, 10, 11"),
        (WRONG, RIGHT, "val: 3 of 12 samples of the reference are samples of its split train too, 0 of those of the candidate: 9, 10, 11"),
        (RIGHT, TRAIN, "train: 2 of 20 samples of the candidate are samples of its split val too, 0 of those of the reference: 18, 19"),
    ],
)
def test_samples_of_another_split_are_named(tmp_path, reference, candidate, said):
    result = checked(tmp_path, reference, candidate)
    assert (result.verdict, result.findings[0].rule, result.findings[0].cause) == (DIVERGED, "data/overlap", said)


def test_splits_that_overlap_alike_are_no_difference(tmp_path):
    assert checked(tmp_path, WRONG, WRONG).verdict == ALIGNED


@pytest.mark.parametrize(
    ("reference", "candidate"),
    [
        ("rows('train')", "[row + (split == 'val') for row in rows('train')]"),
        ("rows('train')", "[row + (split == 'val' and row[0] > 50) for row in rows('train')]"),
        (RIGHT, "[row * 0 for row in rows(split)]"),
        (RIGHT, "[row if split == 'train' or n % 2 else rows('train')[0] * 0 for n, row in enumerate(rows(split))] + [rows('train')[0] * 0] * (split == 'train')"),
    ],
    ids=["shared by right samples", "shared by right samples, some wrong", "all zeros", "blank samples"],
)  # fmt: skip
def test_samples_that_are_equal_because_they_are_wrong_are_no_overlap(tmp_path, reference, candidate):
    result = checked(tmp_path, reference, candidate)
    assert result.verdict == DIVERGED
    assert "data/overlap" not in [finding.rule for finding in result.findings]


def test_an_overlap_stands_behind_a_proven_cause():
    results = [
        (name, StageResult("data", DIVERGED, findings=[Finding("data/scale", "a", "b", proven)]))
        for name, proven in (("val", True), ("test", False), ("train", True))
    ]
    splits = {
        0: ({0: b"a", 1: b"b"}, {0: b"a", 1: b"t"}),
        1: ({0: b"c", 1: b"d"}, {0: b"c", 1: b"u"}),
        2: ({0: b"t", 1: b"u"}, {0: b"t", 1: b"u"}),
    }
    made = [overlap._Split(rows, {1} if number < 2 else set(), {0} if number < 2 else {0, 1}) for number, rows in splits.items()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overlap, "_split", lambda number, *_: made[number])
        overlap.explain(results, [(number, None) for number in range(3)], Tolerance())
    assert [[f.rule for f in result.findings] for _, result in results] == [
        ["data/scale", "data/overlap"],
        ["data/overlap", "data/scale"],
        ["data/scale"],
    ]


def test_other_samples_that_are_of_no_split_are_no_overlap(tmp_path):
    result = checked(tmp_path, RIGHT, "[row + (split == 'val') for row in rows(split)]")
    assert result.verdict == DIVERGED
    assert "data/overlap" not in [finding.rule for finding in result.findings]


def test_the_name_of_an_attribute_is_no_constant():
    nodes = list(ast.walk(ast.parse('if hasattr(self, "table") and name == "table": getattr(x, "y", "z")')))
    assert [node.value for node in _attribute_names(nodes)] == ["table", "y"]
