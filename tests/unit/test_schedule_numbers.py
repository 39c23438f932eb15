"""A schedule whose line takes one number in place of the reference's: what gives it the number is named, however both lines compute."""

from __future__ import annotations

import pytest
from tests.unit.test_provenance import _stepped, line_of, record

from paralign.locate.provenance import tracing_back
from paralign.locate.provenance.settings import optimizer_settings

__all__ = ["record"]

REFERENCE = """
    import argparse, math
    def make(floor, warmup, total):
        def rate(step):
            if step < warmup:
                return (step + 1) / warmup
            done = min(1.0, (step - warmup) / (total - warmup))
            return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * done))
        return rate
    def run():
        rate = make(0.1, 3, 11)
        return argparse.Namespace(learning_rate=argparse.Namespace(learning_rate=0.004, step=rate))
"""

CANDIDATE = """
    import argparse, math
    from functools import partial
    OPTIONS = dict(
        rise=3,
        end=11,
        lowest=0.1,  # HERE
    )
    def shape(rate, rise, end, lowest):
        def share(step):
            if step < rise:
                return (step + 1) / rise
            way = min((step - rise) / (end - rise), 1.0)
            return lowest + (1 - lowest) * (1 + math.cos(way * math.pi)) / 2  # FORMULA
        return argparse.Namespace(learning_rate=rate, step=share)
    def run():
        schedule = partial(shape, **OPTIONS)
        return argparse.Namespace(learning_rate=schedule(0.004))
"""


@pytest.mark.parametrize(
    ("old", "new", "mark"),
    [
        ("lowest=0.1", "lowest=0.0", "# HERE"),
        ("lowest=0.1", "lowest=0.01", "# HERE"),
        (") / 2  #", ") / 3  #", "# FORMULA"),
    ],
)
def test_the_number_that_a_line_takes(record, old, new, mark):
    wrong = CANDIDATE.replace(old, new)
    assert wrong != CANDIDATE
    found = optimizer_settings.of_rates(tracing_back.Sides(record(REFERENCE, _stepped), record(wrong, _stepped)))
    assert found is not None
    assert found.expression.line == line_of(wrong, mark)


def test_a_right_schedule_names_nothing(record):
    assert optimizer_settings.of_rates(tracing_back.Sides(record(REFERENCE, _stepped), record(CANDIDATE, _stepped))) is None
