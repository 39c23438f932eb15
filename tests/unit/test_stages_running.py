"""Running statistics: the share that a step keeps, means that are zero but for rounding, the two variances of a batch."""

from __future__ import annotations

import numpy as np
import pytest

from paralign.comparison import compare_pair
from paralign.dtypes import EPS, Typed, typed
from paralign.model import ALIGNED, DIVERGED, UNDERPOWERED, Noise, Record
from paralign.stages.steps import running

RANDOM = np.random.RandomState(0)
OLD = 1 + RANDOM.rand(70)
BATCH = 2 + RANDOM.rand(70)


@pytest.mark.parametrize(
    ("attrs", "framework", "expected"),
    [({"momentum": 0.1}, "torch", 0.9), ({"momentum": 0.9}, "paddle", 0.9), ({"momentum": None}, "torch", None), ({}, "torch", None), ({"momentum": 2}, "torch", None)],
)  # fmt: skip
def test_the_share_that_a_running_statistic_keeps(attrs, framework, expected):
    kept = running.kept(Record(0, "x", "backward", "buffer", "float32", (), attrs=attrs), framework)
    assert kept == (None if expected is None else pytest.approx(expected))
    assert running.kept(None, framework) is None


def test_a_momentum_in_float32_matters_the_more_it_keeps():
    assert running.stored(0.9).value == pytest.approx(EPS["float32"] / 2 * 9)
    assert running.stored(0.0).value == 0


def means(reference, candidate, noise):
    """Running means of one layer beside its running variance of about one."""
    rows = []
    for framework, value in (("torch", reference), ("paddle", candidate)):
        names = ("running_mean", "running_var") if framework == "torch" else ("_mean", "_variance")
        rows.append([(leaf, v, {"owner": "bn", "leaf": leaf}) for leaf, v in zip(names, (value, OLD), strict=True)])
    pairs = []
    for (leaf, first, attrs), (_, second, others) in zip(*rows, strict=True):
        ends = [Record(0, leaf, "backward", "buffer", "float64", v.shape, attrs=a) for v, a in ((first, attrs), (second, others))]
        pair = compare_pair(leaf, *ends, typed(first), typed(second))
        pair.noise, pair.verdict = Noise(noise, "measured"), DIVERGED
        pairs.append(pair)
    running.excuse_zero_means(pairs, {"bn": 1.2}, 0.1)
    return pairs[0]


@pytest.mark.parametrize(
    ("reference", "candidate", "noise", "excused"),
    [
        (1e-7, 2e-7, 0.5, True),
        (1e-7, 1e-3, 0.5, False),
        (1e-3, 2e-3, 0.5, False),
        (1e-7, 2e-7, 1e-6, False),
        (1e-17, 2e-17, 1e-6, True),
        (1e-17, 1e-9, 1e-6, False),
    ],
    ids=["both vanish", "the candidate's does not", "neither vanishes", "the reference knows it", "rounding in float64", "more than that"],
)
def test_a_mean_of_zero_but_for_rounding_is_not_judged(reference, candidate, noise, excused):
    pair = means(reference * BATCH, candidate * BATCH[::-1], noise)
    assert pair.judged is not excused
    assert pair.notes == (["vanishes but for rounding: not judged"] if excused else [])


def test_without_a_variance_beside_it_no_mean_is_small():
    first = Record(0, "m", "backward", "buffer", "float64", (70,), attrs={"owner": "bn", "leaf": "running_mean"})
    pair = compare_pair("m", first, first, typed(1e-9 * BATCH), typed(2e-9 * BATCH))
    pair.noise, pair.verdict = Noise(0.5, "measured"), DIVERGED
    running.excuse_zero_means([pair], {}, 0.1)
    assert pair.judged


def after(batch, share=0.9):
    return share * OLD + (1 - share) * batch


@pytest.mark.parametrize(
    ("reference", "candidate", "unbiased", "expected"),
    [
        (BATCH * 1.25, BATCH, True, True),
        (BATCH, BATCH * 1.25, False, True),
        (BATCH, BATCH * 1.25, True, False),
        (BATCH * 1.25, BATCH, False, False),
        (BATCH * 3, BATCH, True, False),
        (BATCH[::-1], BATCH, True, False),
    ],
    ids=["torch", "paddle first", "the wrong way", "the wrong way, paddle first", "too much", "another batch"],
)
def test_the_two_variances_differ_by_one_factor_in_one_direction(reference, candidate, unbiased, expected):
    assert running.is_biased(OLD, after(reference), after(candidate), 0.9, 0.0, reference_unbiased=unbiased) is expected


@pytest.mark.parametrize("calls", [2, 3, 8])
def test_a_layer_called_several_times_keeps_its_share_as_often(calls):
    shares = [0.1 * 0.9**n for n in range(calls)]
    batches = [BATCH * (1 + 0.1 * n) for n in range(calls)]
    biased = 0.9**calls * OLD + sum(share * batch for share, batch in zip(shares, batches, strict=True))
    unbiased = 0.9**calls * OLD + sum(share * batch * 1.25 for share, batch in zip(shares, batches, strict=True))
    assert running.is_biased(OLD, unbiased, biased, 0.9, 0.0, reference_unbiased=True)
    assert not running.is_biased(OLD, unbiased * 1.01, biased, 0.9, 0.0, reference_unbiased=True)


def test_a_statistic_that_did_not_move_is_no_biased_variance():
    assert not running.is_biased(OLD, after(BATCH), 0.9 * OLD, 0.9, 0.0, reference_unbiased=True)


def test_noise_is_granted_beside_the_factor():
    wobble = 1e-3 * np.where(np.arange(70) % 2, 1, -1)
    for allowed, expected in ((2 * float(np.linalg.norm(wobble)), True), (0.0, False)):
        assert running.is_biased(OLD, after(BATCH * 1.25) + wobble, after(BATCH), 0.9, allowed, reference_unbiased=True) is expected


@pytest.mark.parametrize(
    ("values", "verdict", "judged"),
    [
        ((1e-32, 3e-32), DIVERGED, False),
        ((0.0, 1e-15), UNDERPOWERED, False),
        ((1e-13, 2e-13), DIVERGED, True),
        ((0.3, 1e-32), DIVERGED, True),
        ((1e-32, 0.3), DIVERGED, True),
    ],
)
def test_a_part_of_a_loss_is_left_out_where_only_squares_of_rounding_are_left_of_it(values, verdict, judged):
    pairs = [scalar("loss_0.total", 2.5, 2.5, ALIGNED), scalar("loss_0.match", *values, verdict)]
    running.excuse_vanishing_parts(pairs)
    assert [pair.judged for pair in pairs] == [True, judged]
    assert pairs[1].verdict == (verdict if judged else ALIGNED)


def test_a_loss_that_is_zero_as_a_whole_is_judged():
    pairs = [scalar("loss_0", 0.0, 1e-3, DIVERGED)]
    running.excuse_vanishing_parts(pairs)
    assert pairs[0].judged


def scalar(key, reference, candidate, verdict):
    """A pair of two numbers that was judged."""
    first, second = (Record(0, key, "backward", "scalar", "float64", ()) for _ in range(2))
    pair = compare_pair(key, first, second, *(Typed(np.array(value), "float64") for value in (reference, candidate)))
    pair.verdict = verdict
    return pair
