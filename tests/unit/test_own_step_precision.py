"""Which of a training step's native changes accuse a port: not one parameter whose sums cancel in a kernel, but all else."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from paralign.model import DIVERGED, Noise, Pair, Stats
from paralign.stages.backward import native_gradients
from paralign.stages.backward.own_step_judging import _are_rounding, _excused_alone


def pair(error, noise=6.7e-7, size=1.0):
    made = Pair(
        "change",
        SimpleNamespace(role="parameter", name="p"),
        None,
        stats=Stats(count=1, rel_l2=error, rms_reference=size),
        noise=Noise(noise, ""),
    )
    made.verdict = DIVERGED if not error <= 100 * noise else "aligned"
    return made


def excused(pairs):
    return _excused_alone(pairs, [each for each in pairs if each.verdict == DIVERGED])


RIGHT = [pair(1e-6) for _ in range(112)]


@pytest.mark.parametrize(
    ("odd", "count"),
    [
        ([pair(1.3e-4)], 1),  # a bias whose gradient cancels
        ([pair(5e-4)], 0),  # stored in float16
        ([pair(math.inf)], 0),
        ([pair(math.nan)], 0),
        ([pair(1.3e-4) for _ in range(40)], 0),  # many
        ([pair(2e-4, size=100.0)], 0),  # all together
    ],
)
def test_a_few_inexact_changes_are_excused_alone(odd, count):
    assert len(excused([*RIGHT, *odd])) == count


def test_a_model_of_few_parameters_is_not_excused_as_a_whole():
    assert excused([pair(1.3e-4)]) == []
    assert excused([pair(1.3e-4), pair(1.3e-4)]) == []
    assert len(excused([pair(1.3e-4, size=1e-3), *RIGHT[:4]])) == 1
    assert excused([]) == []


def test_changes_that_are_rounding_themselves_say_nothing_of_all_together():
    unsteady = [pair(0.9, noise=1.0, size=10.0) for _ in range(3)]
    assert excused([*RIGHT, *unsteady, pair(2e-4, size=100.0)]) == []


def test_an_error_that_is_not_finite_is_one_of_all_together():
    assert native_gradients.together([pair(1e-6), pair(math.inf, size=0.0)])[0] == math.inf
    worst = max([pair(1e-6, size=0.0), pair(math.inf, size=0.0), pair(1e-3)], key=native_gradients._error)
    assert worst.error == math.inf
    assert native_gradients.together([pair(1e-6)]) == pytest.approx((1e-6, 6.7e-7))
    assert native_gradients.together([pair(1e-6, size=0.0)]) == (0.0, 0.0)
    assert native_gradients.together([]) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("sizes", "dtypes", "is_rounding"),
    [
        ((1e-18, 6e-9), ("float64", "float32"), True),  # a bias before a normalisation, in a port that does not run in float64
        ((1e-18, 6e-9), ("float64", "float64"), False),
        ((1e-18, 6e-9), ("float32", "float32"), True),  # as records tell it, the reference ran in float64
        ((1e-8, 6e-9), ("float64", "float32"), False),  # the reference moves it
        ((1e-18, 1e-3), ("float64", "float16"), False),  # no step of float16 is rounding of float32
        ((0.0,), ("float64",), True),
    ],
)
def test_what_rounding_leaves_of_zero(sizes, dtypes, is_rounding):
    assert _are_rounding(sizes, dtypes, 0.27) is is_rounding
