"""Schedules of learning rates that part after the trained steps: followed without the model, the first step that differs is named."""

from __future__ import annotations

import numpy as np
import pytest

from paralign import Side, check
from paralign.model import ALIGNED, DIVERGED, Coverage, Tolerance
from paralign.report import text
from paralign.stages.common.judging import CONSTANTS
from paralign.stages.steps.rate_schedules import first_difference, in_digits

torch = pytest.importorskip("torch")
schedules = torch.optim.lr_scheduler


def plain(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


def side(scheduler, optimizer=plain):
    functions = {"build_model": lambda: torch.nn.Linear(6, 4), "loss": lambda o, y: ((o - y) ** 2).mean(), "build_optimizer": optimizer}
    return Side(framework="torch", functions={**functions, **({"build_scheduler": scheduler} if scheduler else {})})


def checked(reference, candidate):
    inputs, labels = np.ones((2, 6), "float32"), np.ones((2, 4), "float32")
    return check(reference, candidate, inputs=inputs, labels=labels, stages=["backward"])


def test_a_schedule_that_differs_after_the_trained_steps_is_found_and_its_line_named():
    other = lambda o: schedules.StepLR(o, 31, 0.1)  # noqa: E731 - its line is looked for
    result = checked(side(lambda o: schedules.StepLR(o, 30, 0.1)), side(other))["backward"]
    assert result.verdict == DIVERGED
    assert [p.key for p in result.pairs if p.verdict == DIVERGED] == ["schedule"]
    assert result.divergence.pair.notes == ["step 30 is the first whose rate differs: 0.01 in the reference, 0.1 in the candidate"]
    assert "schedules.StepLR(o, 31" in result.divergence.candidate.code
    assert result.divergence.last_agreeing == "the rates of the 30 steps before"


def test_the_row_says_how_far_an_equal_schedule_was_followed():
    schedule = lambda o: schedules.CosineAnnealingLR(o, 200)  # noqa: E731 - used twice
    closed = lambda o: schedules.LambdaLR(o, lambda n: (1 + np.cos(np.pi * n / 200)) / 2)  # noqa: E731 - the same in closed form
    whole = checked(side(schedule), side(closed))
    result = whole["backward"]
    assert (result.verdict, result.coverage) == (ALIGNED, [Coverage("steps", 3), Coverage("learning rates", 10_000)])
    assert str(next(iter(text.table(whole).columns[1].cells))) == "aligned, 3 steps, 10,000 learning rates"


def test_a_schedule_that_ends_is_compared_as_far_as_it_goes():
    once = lambda o: schedules.OneCycleLR(o, 0.1, total_steps=50)  # noqa: E731 - used twice
    result = checked(side(once), side(once))["backward"]
    assert (result.verdict, result.coverage[1]) == (ALIGNED, Coverage("learning rates", 51))
    assert any(note.startswith("the candidate's schedule goes no further than 51 steps: ValueError") for note in result.notes)


def test_no_schedule_is_a_constant_one_and_two_constant_ones_are_not_followed():
    assert checked(side(None), side(None))["backward"].coverage == [Coverage("steps", 3)]
    result = checked(side(None), side(lambda o: schedules.StepLR(o, 5000, 0.1)))["backward"]
    assert result.verdict == DIVERGED
    assert "step 5000 is the first" in result.divergence.pair.notes[0]


def test_a_schedule_that_the_module_made_once_is_left_as_it_was():
    kept = {}

    def scheduler(optimizer):
        found = kept.setdefault("schedule", schedules.StepLR(optimizer, 30, 0.1))
        found.optimizer = optimizer
        return found

    checked(side(scheduler), side(lambda o: schedules.StepLR(o, 30, 0.1)))
    assert kept["schedule"].last_epoch < 100


def rates(*columns):
    return np.array(columns, float).T


@pytest.mark.parametrize(
    ("first", "second", "step"),
    [
        (rates([1, 0.5, 0.25]), rates([1, 0.5, 0.25]), None),
        (rates([1, 0.5, 0.25]), rates([1, 0.5, 0.2501]), 2),
        (rates([1, 0.5, 0.25]), rates([1, 0.5 * (1 + CONSTANTS / 2), 0.25]), None),
        (rates([1, 1, 1e-30]), rates([1, 1, 0]), None),  # what a cosine leaves of zero
        (rates([1, 1], [2, 2]), rates([2, 2], [1, 1]), None),
        (rates([1, 1], [2, 2]), rates([2, 2], [1, 3]), 1),
        (rates([1, 1]), rates([1, 1], [2, 2]), None),
        (rates([1, 3]), rates([1, 1], [2, 2]), 1),
        (rates([1, np.nan]), rates([1, np.nan]), None),
        (rates([1, np.nan]), rates([1, 1]), 1),
    ],
)
def test_the_first_step_that_differs(first, second, step):
    assert first_difference(first, second, Tolerance()) == step


def test_rates_that_differ_are_shown_in_digits_that_tell_them_apart():
    near = np.array([0.0999702]), np.array([0.09997021])
    assert in_digits(*near) == ["0.0999702", "0.09997021"]
    assert in_digits(*near, alike=True) == ["0.0999702", "0.0999702"]
    assert in_digits(np.array([0.1, 0.01]), np.array([0.1, 0.02])) == ["0.1, 0.01", "0.1, 0.02"]


def test_the_users_tolerance_holds_for_rates_too():
    first, second = rates([1, 0.5]), rates([1, 0.6])
    assert first_difference(first, second, Tolerance(atol=0.2)) is None
    assert first_difference(first, second, Tolerance(ratio=1e7)) is None
    assert first_difference(first, second, Tolerance(rtol=0.1)) == 1
