"""How far a side's gradients are from themselves, and what follows for the verdict."""

from types import SimpleNamespace

import numpy as np
import pytest

from paralign.model import ALIGNED, DIVERGED, UNDERPOWERED, StageResult
from paralign.stages.common import repeatability
from paralign.worker.draws import repeating


def test_distances_are_relative_and_leave_out_what_is_not_finite():
    one = {"w": np.array([3.0, 4.0, np.inf]), "lost": None}
    assert repeating.distance(one, {"w": np.array([3.0, 4.5, 1.0]), "lost": np.ones(2)}) == pytest.approx(0.1)
    assert repeating.distance(one, {"w": np.ones(7)}) == 0.0
    assert repeating.distance({}, {}) == 0.0


def test_a_large_loss_does_not_hide_small_gradients():
    one = {repeating.LOSS: np.array([1e6]), "w": np.array([1e-3])}
    assert repeating.farthest(one, {**one, "w": np.array([1.5e-3])}) == pytest.approx(0.5)


def judged(error, verdict, far):
    pair, result = SimpleNamespace(judged=True, error=error, verdict=verdict), StageResult("backward")
    repeatability.say_gradients(result, [pair], far, "gradients")
    return pair.verdict, len(result.doubts), len(result.notes)


@pytest.mark.parametrize(
    ("error", "verdict", "far", "expected"),
    [
        (1e-12, ALIGNED, (0.0, 1e-9), (ALIGNED, 0, 0)),
        (1e-12, ALIGNED, (0.01, 0.01), (ALIGNED, 0, 1)),
        (1e-12, ALIGNED, (0.0, 1e-7), (ALIGNED, 0, 1)),
        (2e-7, ALIGNED, (1e-7, 2e-7), (ALIGNED, 0, 2)),
        (0.01, ALIGNED, (0.01, 0.01), (UNDERPOWERED, 2, 0)),
        (0.02, DIVERGED, (0.01, 0.01), (UNDERPOWERED, 2, 0)),
        (0.5, DIVERGED, (0.01, 0.01), (DIVERGED, 2, 0)),
        (0.02, DIVERGED, (0.0, 0.01), (DIVERGED, 1, 0)),
        (1e-12, ALIGNED, (0.0, 0.01), (UNDERPOWERED, 1, 0)),
        (1e-7, ALIGNED, (2e-5, 2e-5), (ALIGNED, 2, 0)),
    ],
)
def test_what_random_gradients_hide(error, verdict, far, expected):
    assert judged(error, verdict, far) == expected


@pytest.mark.parametrize(("far", "aloud"), [((5e-8, 0.0), 0), ((1e-9, 2e-7), 1), ((9e-6, 9e-6), 2)])
def test_what_rounding_does_not_make_is_said_in_the_shortest_form_too(far, aloud):
    pair, result = SimpleNamespace(judged=True, error=1e-7, verdict=ALIGNED), StageResult("backward")
    repeatability.say_gradients(result, [pair], far, "gradients")
    assert len(result.excused) == aloud
    assert set(result.excused) <= set(result.notes)
