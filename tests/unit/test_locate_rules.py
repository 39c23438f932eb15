"""Update rules, recomputed: against steps written out by hand, and values found from steps."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from paralign.locate.optimizer.fit import SCALARS, fit
from paralign.locate.optimizer.update_rules import RULES, Terms, Trace, moved

RANDOM = np.random.default_rng(0)
WEIGHT = RANDOM.normal(size=40)
GRADIENTS = [RANDOM.normal(size=40) for _ in range(4)]
RATE = 0.01


def trace(name="w", gradients=GRADIENTS, weight=WEIGHT):
    norms = [0.0 if g is None else float(np.linalg.norm(g)) for g in gradients]
    return Trace(name, weight, list(gradients), norms, dims=2)


def run(family="sgd", gradients=GRADIENTS, **terms):
    steps = moved({"w": Terms(family, terms.pop("rates", (RATE,)), **terms)}, {"w": trace(gradients=gradients)})["w"]
    assert steps.shape == (len(gradients), 40)
    return steps


def test_plain_descent():
    np.testing.assert_allclose(run(), [-RATE * g for g in GRADIENTS], rtol=1e-12)


def test_momentum_with_dampening_starts_with_the_whole_gradient():
    steps = run(first=0.9, dampening=0.5)
    np.testing.assert_allclose(steps[0], -RATE * GRADIENTS[0])
    np.testing.assert_allclose(steps[1], -RATE * (0.9 * GRADIENTS[0] + 0.5 * GRADIENTS[1]))
    np.testing.assert_allclose(run(first=0.9, dampening=0.5, damped=True)[0], -RATE * 0.5 * GRADIENTS[0])


def test_nesterov_looks_ahead():
    np.testing.assert_allclose(run(first=0.9, nesterov=True)[0], -RATE * 1.9 * GRADIENTS[0])


def test_the_rate_inside_momentum_shows_when_it_changes():
    rates = (RATE, RATE / 2, RATE / 2, RATE / 2)
    outside, inside = run(first=0.9, rates=rates), run(first=0.9, rates=rates, scaled=True)
    np.testing.assert_allclose(inside[0], outside[0])
    np.testing.assert_allclose(inside[1], -(0.9 * RATE * GRADIENTS[0] + RATE / 2 * GRADIENTS[1]))
    assert not np.allclose(inside[1], outside[1])


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        ("coupled", -RATE * (GRADIENTS[0] + 0.1 * WEIGHT)),
        ("l1", -RATE * (GRADIENTS[0] + 0.1 * np.sign(WEIGHT))),
        ("decoupled", -RATE * GRADIENTS[0] - RATE * 0.1 * WEIGHT),
        ("after", -RATE * GRADIENTS[0] - RATE * 0.1 * (WEIGHT - RATE * GRADIENTS[0])),
        ("unscaled", -RATE * GRADIENTS[0] - 0.1 * WEIGHT),
    ],
)
def test_what_weight_decay_does(style, expected):
    np.testing.assert_allclose(run(decay=0.1, style=style)[0], expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("place", "denominator"),
    [
        ("outside", lambda v: np.sqrt(v / 0.001) + 0.1),
        ("inside", lambda v: np.sqrt(v / 0.001 + 0.1)),
        ("hat", lambda v: (np.sqrt(v) + 0.1) / math.sqrt(0.001)),
        ("twice", lambda v: np.sqrt((v + 0.1) / 0.001) + 0.1),
    ],
)
def test_where_adams_epsilon_stands(place, denominator):
    steps = run("adam", first=0.9, second=0.999, eps=0.1, place=place)
    np.testing.assert_allclose(steps[0], -RATE * GRADIENTS[0] / denominator(0.001 * GRADIENTS[0] ** 2), rtol=1e-9)


def test_adam_without_bias_correction():
    steps = run("adam", first=0.9, second=0.999, corrected="none", eps=0.0)
    np.testing.assert_allclose(steps[0], -RATE * 0.1 * GRADIENTS[0] / np.sqrt(0.001 * GRADIENTS[0] ** 2))


def test_amsgrad_keeps_the_greatest_variance():
    shrinking = [GRADIENTS[0], *(1e-3 * g for g in GRADIENTS[1:])]
    plain, kept = (run("adam", shrinking, first=0.9, second=0.9, amsgrad=a) for a in (False, True))
    np.testing.assert_allclose(kept[0], plain[0])
    assert (np.abs(kept[3]) < np.abs(plain[3])).all()


def test_a_gradient_that_is_not_there_moves_nothing_and_counts_no_step():
    gaps = run("adam", [GRADIENTS[0], None, GRADIENTS[1], None], first=0.9)
    assert not gaps[[1, 3]].any()
    np.testing.assert_allclose(gaps[[0, 2]], run("adam", first=0.9)[:2])


@pytest.mark.parametrize("family", sorted(RULES))
def test_every_family_moves_against_the_first_gradient(family):
    first = run(family, first=0.9 if family not in ("sgd", "rmsprop") else 0.0)[0]
    assert (np.sign(first) == -np.sign(GRADIENTS[0])).all()
    ascent = run(family, first=0.9 if family not in ("sgd", "rmsprop") else 0.0, sign=-1.0)[0]
    np.testing.assert_allclose(ascent, -first)


# -- clipping --------------------------------------------------------------------------------------------------------------------


def clipped(kind, threshold=0.5, slack=0.0, groups=(0, 0), **terms):
    traces = {"a": trace("a"), "b": trace("b", [2 * g for g in GRADIENTS])}
    recipe = {
        n: Terms("sgd", (1.0,), clip=kind, threshold=threshold, slack=slack, group=g, **terms) for n, g in zip(traces, groups, strict=True)
    }
    return {n: -s[0] for n, s in moved(recipe, traces).items()}


def test_clipping_by_the_norm_of_all_by_group_by_tensor_and_by_value():
    one, all_ = np.linalg.norm(GRADIENTS[0]), np.linalg.norm(GRADIENTS[0]) * math.sqrt(5)
    np.testing.assert_allclose(clipped("global")["a"], GRADIENTS[0] * 0.5 / all_)
    np.testing.assert_allclose(clipped("global", slack=1.0)["a"], GRADIENTS[0] * 0.5 / (all_ + 1))
    np.testing.assert_allclose(clipped("group", groups=(0, 1))["a"], GRADIENTS[0] * 0.5 / one)
    np.testing.assert_allclose(clipped("group")["a"], GRADIENTS[0] * 0.5 / all_)
    np.testing.assert_allclose(clipped("tensor")["b"], GRADIENTS[0] * 0.5 / one)
    np.testing.assert_allclose(clipped("value")["b"], np.clip(2 * GRADIENTS[0], -0.5, 0.5))


def test_what_is_small_is_not_clipped():
    np.testing.assert_allclose(clipped("global", threshold=1e3)["a"], GRADIENTS[0])


def test_clipping_after_weight_decay_clips_the_decay_too():
    early, late = (clipped("value", late=late, decay=1.0)["a"] for late in (False, True))
    np.testing.assert_allclose(late, np.clip(GRADIENTS[0] + WEIGHT, -0.5, 0.5))
    np.testing.assert_allclose(early, np.clip(GRADIENTS[0], -0.5, 0.5) + WEIGHT)


# -- fitting ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "scalar", "field", "value"),
    [
        ("sgd", "decay", "decay", 0.0375),
        ("sgd", "first", "first", 0.85),
        ("adam", "first", "first", 0.5),
        ("adam", "second", "second", 0.98),
        ("adam", "eps", "eps", 1e-3),
        ("rmsprop", "second", "second", 0.95),
        ("adagrad", "eps", "eps", 1e-2),
        ("sgd", "rates", "rates", (0.003,)),
    ],
)
def test_a_value_is_found_from_the_steps(family, scalar, field, value):
    base = Terms(family, (RATE,), first=0.9 if family != "rmsprop" else 0.0)
    truth = moved({"w": replace(base, **{field: value})}, {"w": trace()})["w"]
    edit = SCALARS[scalar]

    def loss(tried):
        return [(moved({"w": edit.put(base, tried)}, {"w": trace()})["w"] - truth).ravel()]

    found = fit(loss, edit.starts(base), edit.scale)
    assert found is not None
    np.testing.assert_allclose(getattr(edit.put(base, found), field), value, rtol=1e-6)


def test_a_value_that_was_written_with_few_digits_is_told_with_few():
    assert fit(lambda v: [np.array([v - 0.0300000000001])], (0.01,), "log") == 0.03


def test_nothing_finite_gives_no_value():
    assert fit(lambda _: [np.array([math.nan])], (1.0,), "log") is None
    assert fit(lambda _: [np.array([0.0])], (), "log") is None
    assert fit(lambda v: [np.array([v])], (0.0, 1.5), "odds") is None
