"""The watchdog of unstable trainings: it goes back to the last good checkpoint, and ends what breaks down again and again."""

from __future__ import annotations

import math

import pytest

from paralign.errors import UsageError
from paralign.trainlog import Unstable, Watchdog


class Training:
    def __init__(self, folder, losses, **settings):
        self.state, self.losses, self.saved = 0, losses, {}
        self.dog = Watchdog(self.save, self.load, str(folder), **settings)

    def save(self, path):
        self.saved[path] = self.state

    def load(self, path):
        self.state = self.saved[path]

    def run(self, steps):
        step, made = 0, []
        while step < steps:
            self.state = step
            made.append(step)
            step = self.dog.step(step, loss=next(self.losses))
        return made


def test_after_a_breakdown_the_training_goes_on_from_the_last_good_checkpoint(tmp_path):
    training = Training(tmp_path, iter([1, 1, 1, 1, math.nan, 1, 1, 1]), every=2)
    assert training.run(6) == [0, 1, 2, 3, 4, 4, 5]
    assert training.dog.reports == ["step 4: loss is nan; back to the checkpoint after step 3"]
    assert training.dog.left == 2


def test_a_limit_counts_as_a_nan_does_in_both_directions(tmp_path):
    training = Training(tmp_path, iter([1, -60.0, 1, 1]), every=1, limits={"loss": 50.0})
    assert training.run(3) == [0, 1, 1, 2]
    assert training.dog.reports[0].startswith("step 1: loss is -60, its limit 50")


def test_a_training_that_breaks_down_too_often_ends_with_its_step(tmp_path):
    with pytest.raises(Unstable, match="broke down at step 1: loss is inf; it went back as often as it may"):
        Training(tmp_path, iter([1] + [math.inf] * 5), every=1, retries=2).run(3)
    with pytest.raises(Unstable, match="step 0: loss is nan; there is no checkpoint yet"):
        Training(tmp_path, iter([math.nan]), every=1).run(3)
    with pytest.raises(UsageError, match="at least 1"):
        Training(tmp_path, iter([]), every=0)


def test_samples_are_kept_on_the_way(tmp_path):
    drawn = []
    Training(tmp_path, iter([1.0] * 6), every=3, samples=drawn.append, samples_every=2).run(6)
    assert drawn == [str(tmp_path / "samples" / f"step_{n}") for n in (1, 3, 5)]
