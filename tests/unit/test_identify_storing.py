"""Rates and sizes of steps that float32 alone brings apart are no cause."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from paralign.locate.optimizer.identify import Difference, _is_of_storing, causes
from paralign.locate.optimizer.update_rules import Terms, Trace, moved

REFERENCE = Terms("adam", (0.003,) * 3, first=0.9, second=0.99, eps=1e-6)


def traced(terms):
    draw = np.random.default_rng(0)
    gradients = [draw.standard_normal(40) for _ in range(3)]
    norms = [float(np.linalg.norm(g)) for g in gradients]
    trace = Trace("weight", draw.standard_normal(40), gradients, norms, {}, 1, True)
    for side, rule in {"reference": REFERENCE, "candidate": terms}.items():
        trace.steps[side] = moved({"weight": rule}, {"weight": trace})["weight"]
    return {"weight": trace}


@pytest.mark.parametrize(
    ("term", "first", "second", "is_of_storing"),
    [
        ("rates", (0.003, 0.002), (0.003 * (1 + 1e-7), 0.002), True),
        ("rates", (0.003, 0.002), (0.003 * (1 + 1e-5), 0.002), False),
        ("rates", (0.003,), (0.003, 0.003), False),
        ("whole", (), (1.0, 0.999999), True),
        ("whole", (), (1.0, 0.9999), False),
        ("decay", 0.1, 0.1 * (1 + 1e-8), False),
    ],
)
def test_what_storing_makes_of_numbers_of_steps(term, first, second, is_of_storing):
    assert _is_of_storing(Difference((term,), (first,), (second,), ["weight"])) is is_of_storing


def test_a_clipping_is_the_only_cause_beside_a_rounded_rate():
    candidate = replace(REFERENCE, rates=(0.003 * (1 + 4e-7),) * 3, clip="tensor", threshold=0.3)
    traces = traced(candidate)
    found = causes({"weight": REFERENCE}, {"weight": candidate}, traces, {"weight": 1e-7})
    assert [difference.terms[0] for difference in found] == ["clip"]
    wrong = replace(candidate, rates=(0.004,) * 3)
    found = causes({"weight": REFERENCE}, {"weight": wrong}, traced(wrong), {"weight": 1e-7})
    assert {difference.terms[0] for difference in found} == {"clip", "rates"}
