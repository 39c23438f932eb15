"""Validation data of one side that hold samples of its training data."""

from __future__ import annotations

import ast

import pytest

from paralign.api import check_project
from paralign.model import ALIGNED, DIVERGED
from paralign.repair.edits.other_constant import _attribute_names

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


def test_other_samples_that_are_of_no_split_are_no_overlap(tmp_path):
    result = checked(tmp_path, RIGHT, "[row + (split == 'val') for row in rows(split)]")
    assert result.verdict == DIVERGED
    assert "data/overlap" not in [finding.rule for finding in result.findings]


def test_the_name_of_an_attribute_is_no_constant():
    nodes = list(ast.walk(ast.parse('if hasattr(self, "table") and name == "table": getattr(x, "y", "z")')))
    assert [node.value for node in _attribute_names(nodes)] == ["table", "y"]
