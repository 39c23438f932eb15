"""Rounding added up: what may be taken for it, and what may not."""

import pytest

from paralign.model import ALIGNED, DIVERGED, Divergence, Finding, Noise, Pair, Record, StageResult, Stats, Tolerance
from paralign.stages.common import added_up

NOISE = 4.8e-7


def pair(ratio, *, role="gradient", step=0, name="fc.weight", noise=NOISE):
    record = Record(id=0, stage="backward", name=name, role=role, dtype="float64", shape=(64,), run="float64:eval", step=step)
    stats = Stats(count=64, rel_l2=ratio * noise)
    return Pair(
        f"{role} {name}", record, record, stats=stats, noise=Noise(noise, "two constants"), verdict=DIVERGED if ratio > 1 else ALIGNED
    )


def result(*pairs, **fields):
    return StageResult("backward", DIVERGED, pairs=list(pairs), **fields)


def test_a_slight_excess_of_first_gradients_losses_and_outputs_may_be_rounding():
    scalar = pair(1.5, role="scalar", name="loss")
    assert added_up.may_be(result(pair(2.4), scalar, pair(1.2, role="output"), pair(0.3)), Tolerance())


@pytest.mark.parametrize(
    "wrong",
    [
        pair(3.1),
        pair(2.0, noise=1e-3),  # slight beside its noise, but no rounding of constants
        pair(2.0, step=1),  # behind an update
        pair(2.0, role="parameter"),  # an update
        pair(2.0, role="buffer"),  # a momentum
        pair(2.0, role="scalar", name="lr"),  # a rate is set, not computed
        Pair("gone", None, None, verdict=DIVERGED),  # nothing measured
    ],
)
def test_anything_else_that_differs_is_no_rounding(wrong):
    assert not added_up.may_be(result(pair(1.5), wrong), Tolerance())


@pytest.mark.parametrize("tolerance", [Tolerance(ratio=0.5), Tolerance(atol=1e-9), Tolerance(rtol=1e-9)])
def test_a_limit_of_the_users_own_is_kept(tolerance):
    assert not added_up.may_be(result(pair(1.5)), tolerance)


def test_what_was_confirmed_or_explained_is_no_rounding():
    assert not added_up.may_be(result(pair(1.5), divergences=[Divergence(None, None, confirmed=True)]), Tolerance())
    assert not added_up.may_be(result(pair(1.5), findings=[Finding("update/decay", "decay", "mend it")]), Tolerance())
    assert added_up.may_be(result(pair(1.5), divergences=[Divergence(None, None)]), Tolerance())
    assert not added_up.may_be(result(), Tolerance())


def test_an_excuse_says_so_and_leaves_other_verdicts():
    given = result(pair(2.4), pair(1.3), divergences=[Divergence(None, None)])
    added_up.excuse(given)
    assert given.verdict == ALIGNED
    assert (given.divergences, given.divergence) == ([], None)
    assert all("rounding added up" in each.notes[-1] for each in given.pairs)
    assert "2 values" in given.notes[-1]
    assert "2.4 times the noise" in given.notes[-1]
