"""Arguments that the operations at a guilty point have in common, with other values."""

from __future__ import annotations

import pytest

from paralign.model import argument_differences
from paralign.report.fault_sentences import parted


@pytest.mark.parametrize(
    ("reference", "candidate", "found"),
    [
        ({"eps": 1e-3}, {"epsilon": 1e-5}, [("epsilon", 1e-5, 1e-3)]),
        ({"align_corners": True}, {"align_corners": False}, [("align_corners", False, True)]),
        ({"padding": [1, 1]}, {"paddings": [2, 2]}, [("paddings", [2, 2], [1, 1])]),
        ({"mode": "mean"}, {"mode": "sum"}, [("mode", "sum", "mean")]),
        ({"p": float("inf")}, {"p": 2.0}, [("p", 2.0, float("inf"))]),
        ({"size": 10**400}, {"size": 1.0}, [("size", 1.0, 10**400)]),
    ],
)
def test_another_value_is_found_whatever_the_framework_calls_it(reference, candidate, found):
    assert argument_differences(reference, candidate) == found


@pytest.mark.parametrize(
    ("reference", "candidate"),
    [
        ({"eps": 1e-5}, {"epsilon": 9.999999747378752e-06}),
        ({"padding": [1, 1]}, {"paddings": 1}),
        ({"padding": [1, 1]}, {"paddings": [1, 1, 1, 1]}),
        ({"momentum": 0.1}, {"momentum": 0.9}),
        ({"dim": -1}, {"axis": 3}),
        ({"approximate": "none"}, {"approximate": False}),
        ({"training": False}, {"is_test": True}),
        ({"eps": 1e-5}, {}),
        ({"weight": None}, {"weight": 3}),
        ({"dims": [-1], "end": 2**63 - 1, "dtype": "torch.float64"}, {"dims": [2], "end": 5, "dtype": "float64"}),
    ],
)
def test_what_means_the_same_or_cannot_be_told_is_left_alone(reference, candidate):
    assert argument_differences(reference, candidate) == []


def test_the_sentence_names_both_values_of_operations_of_one_kind_only():
    ends = {"eps": 1e-3}, {"epsilon": 1e-5}
    assert parted("different", *ends) == "; epsilon=1e-05 here, 0.001 in the reference"
    assert parted("region", *ends) == parted("different", None, ends[1]) == ""
