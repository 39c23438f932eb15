"""From which step on two trainings part: not where rounding alone explains it."""

from types import SimpleNamespace

import numpy as np

from paralign.stages.train import trajectory
from paralign.trainlog.lines import TRAIN


def run(values):
    curves = {(TRAIN, "loss"): np.asarray(values, float)}
    return SimpleNamespace(curves=curves, places={TRAIN: [(0, n) for n in range(len(values))]}, stopped=("", ""), steps=len(values))


def exact(reference, candidate, moved):
    return SimpleNamespace(runs=(run(reference), run(candidate)), moved=[run(values) for values in moved])


def test_the_first_step_that_drift_does_not_explain(monkeypatch):
    monkeypatch.setattr(trajectory, "of_capture", lambda known: known)
    values = [1.0, 0.9, 0.8, 0.7, 0.6]
    moved = [1.0, 0.9 + 1e-6, 0.8, 0.7, 0.6]
    early = [1.0, 0.9 + 6e-6, 0.8, 0.8, 0.6]  # step 1 is apart by no more than rounding moves the reference
    assert trajectory.parting(exact(values, early, [moved])) == 3
    assert trajectory.parting(exact(values, early, [])) == 1
    assert trajectory.parting(exact(values, values, [moved])) is None
    assert trajectory.parting(exact(values, [1.0, np.nan, 0.8, 0.7, 0.6], [moved])) == 1


def test_few_values_of_a_loss_are_no_counts_of_samples():
    values = np.array([0.5, 0.25])
    assert trajectory.is_count("acc", values)
    assert not trajectory.is_count("mse", values)
    assert not trajectory.is_count("val_loss", values)
