"""Right numbers that were taken from wrong places: what chose the places is named."""

from __future__ import annotations

import pytest
from tests.unit.test_provenance import line_of, record
from tests.unit.test_provenance_counterparts import sides

from paralign.locate.provenance import tracing_back

__all__ = ["record"]

STEP_BY_STEP = """
    import numpy as np

    def survival(times, at):
        value = np.ones(len(at))
        for n, t in enumerate(times):
            value = np.where(t < at, value * (1.0 - 1.0 / (9.0 + n)), value)
        return value

    def run():
        draw = np.random.RandomState(3)
        times, at, score = np.arange(1.0, 6.0) * 0.3, np.round(draw.rand(24) * 6.0) * 0.3, draw.rand(24)
        return {"mean": float(np.mean(score / survival(times, at)))}
"""

LOOKED_UP = """
    import numpy as np

    class Curve:
        def __init__(self, times):
            self.times = times
            self.curve = np.concatenate([[1.0], np.cumprod(1.0 - 1.0 / (9.0 + np.arange(len(self.times))))])

        def __call__(self, at):
            position = np.searchsorted(self.times, at, side="left")  # HERE
            return np.maximum(self.curve[position], 0.05)

    def run():
        draw = np.random.RandomState(3)
        times, at, score = np.arange(1.0, 6.0) * 0.3, np.round(draw.rand(24) * 6.0) * 0.3, draw.rand(24)
        return {"mean": float(np.mean(score / Curve(times)(at)))}
"""


def named(record, candidate):
    found = tracing_back.of_value(sides(record, STEP_BY_STEP, candidate), "mean", "mean")
    return found.expression.line


@pytest.mark.parametrize(
    "taken",
    [
        "self.curve[position]",
        "np.take(self.curve, position)",
    ],
)
def test_wrong_places_in_a_right_table_are_named_where_they_are_chosen(record, taken):
    wrong = LOOKED_UP.replace('side="left"', 'side="right"').replace("self.curve[position]", taken)
    assert named(record, wrong) == line_of(wrong)


def test_a_wrong_step_with_numbers_of_right_places_is_named_itself(record):
    wrong = LOOKED_UP.replace("  # HERE", "").replace("np.mean(score / Curve(times)(at))", "np.mean(score * Curve(times)(at))")
    wrong = wrong.replace('return {"mean"', 'return {  # HERE\n            "mean"')
    assert named(record, wrong) == line_of(wrong) + 1


def test_a_right_table_by_places_of_its_own_gives_the_reference_s_value(record):
    both = sides(record, STEP_BY_STEP, LOOKED_UP)
    due, own = both.reference.root("mean"), both.candidate.root("mean")
    assert own.scalar == pytest.approx(due.scalar)
