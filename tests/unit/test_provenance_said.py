"""What is said of an expression at fault: that all its operands are right only where each was compared."""

from __future__ import annotations

import pytest
from tests.unit.test_provenance import record
from tests.unit.test_provenance_counterparts import sides

from paralign.locate.provenance import blame_in_words, tracing_back

__all__ = ["record"]

ALL, NOT_ALL = "all that goes in here is the reference's", "not all that goes in could be compared with the reference's"

PROGRAM = """
    import numpy as np

    def run():
        draw = np.random.RandomState(3)
        kept, other = draw.rand(40), draw.rand(40)
        ids = draw.randint(0, 50, 64)
        result = kept * other
        return {"mean": float(result.sum())}
"""


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("result = kept - other", ALL),
        ("result = np.maximum(kept, other)", ALL),
        ("result = np.fromiter(map(max, kept, other), float)", NOT_ALL),
    ],
)
def test_all_operands_are_called_right_only_where_each_was_compared(record, wrong, told):
    found = tracing_back.of_value(sides(record, PROGRAM, PROGRAM.replace("result = kept * other", wrong)), "mean", "mean")
    assert told in blame_in_words.said(found)


def test_numbers_that_the_reference_takes_in_another_order_are_not_called_right(record):
    taken = "result = np.take(kept, ids[:32] % 40)"
    reference = PROGRAM.replace("result = kept * other", taken)
    found = tracing_back.of_value(sides(record, reference, reference.replace("ids[:32]", "ids[20:52]")), "mean", "mean")
    assert ALL not in blame_in_words.said(found)
