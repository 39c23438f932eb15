"""How much the end of a training depends on its initial weights: measured groups, what cannot be measured is said."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from paralign import Side
from paralign.comparison.equivalence import paired, spreads_apart
from paralign.errors import UsageError
from paralign.model import ALIGNED
from paralign.run.trainings import read_trainings

sys.path.insert(0, str(Path(__file__).parent))
from test_stages_train import BATCH, Net, checked, loader, side


def measured(reference, candidate, count=4, **keys):
    result = checked(reference, candidate, initialisations=count, cross="never", **keys)
    tables = [table for table in result.tables if table.title.startswith("dependence on the initialisation")]
    return result, {row[0]: row[1:] for table in tables for row in table.rows}


def note(result, word):
    return next(note for note in result.notes if word in note)


def test_other_laws_of_initial_weights_are_told_apart_and_nothing_is_judged_by_it():
    result, rows = measured(side(), side(net=lambda: Net(2.0)), count=6, margin=0.2)
    assert result.verdict == ALIGNED
    assert list(rows) == [
        "other initial weights",
        "other batches and draws",
        "drawn weights halved",
        "drawn weights doubled",
        "the candidate's initial weights",
    ]
    assert {row[0] for row in rows.values()} == {"6"}
    assert {row[1] for row in rows.values()} == {"0"}
    assert note(result, "with the candidate's initial weights").endswith("it depends on the law")
    assert float(rows["the candidate's initial weights"][4]) > 1


def test_the_spread_of_initial_weights_is_that_of_trainings_that_differ_in_nothing_else():
    result, rows = measured(side(shuffle=False), side(shuffle=False))
    assert float(rows["other batches and draws"][3]) == 0
    assert float(rows["other initial weights"][3]) > 0
    assert "the initial weights matter more (probability by chance 0)" in note(result, "varies by")


def test_a_training_that_forgets_its_start_stays_within_the_margin():
    def train(log):
        net = log.model(Net())
        for _, (x, _) in log.batches(loader(BATCH, shuffle=False), 0):
            for value in net.parameters.values():
                value[...] = 0.5
            log.step(samples=len(x), loss=1.0)
        log.evaluation(0, mse=float(np.abs(net.parameters["first"]).sum()))

    forgetful = Side(framework="numpy", functions={"build_model": Net, "train": train})
    result, rows = measured(forgetful, forgetful)
    assert {row[2] for row in rows.values()} == {"24"}
    assert note(result, "varies by").endswith("neither changes the end")
    assert note(result, "halved").endswith("stays within the margin of 0.024")


def test_weights_that_break_a_training_are_counted():
    result, rows = measured(side(rate=0.25, clip=None), side(rate=0.25), count=2, exact_steps=0, runs=0)
    assert rows["other initial weights"][1] == "0"
    result, rows = measured(side(net=Guarded), side(net=Guarded), count=2)
    assert rows["drawn weights doubled"][1] == "2"
    assert "failed with ValueError: weights are too large" in note(result, "failed with")
    assert note(result, "break down").startswith("with drawn weights doubled, 2 of 2 trainings more")


class Guarded(Net):
    """A network that refuses weights of an unusual size."""

    def __call__(self, x):
        if not getattr(self, "seen", False) and float(np.abs(self.parameters["first"]).std()) > 0.45:
            raise ValueError("weights are too large")
        self.seen = True
        return super().__call__(x)


@pytest.mark.parametrize(
    ("made", "why"),
    [
        ({"hooks": False}, "gives log.model no model"),
        ({"net": lambda: Net(0.0)}, "no initial weight depends on the seed"),
    ],
    ids=["no-model", "nothing-drawn"],
)
def test_what_cannot_be_measured_is_said(made, why):
    result, rows = measured(side(**made), side(**made), count=2)
    assert not rows
    assert why in note(result, "was not measured")


@pytest.mark.parametrize("count", [-1, 1])
def test_fewer_than_two_initialisations_have_no_spread(tmp_path, count):
    with pytest.raises(UsageError, match="initialisations"):
        read_trainings({"initialisations": count}, tmp_path / "paralign.toml")


def test_intervals_and_spreads_are_those_of_the_textbook():
    assert paired([1.0, 2.0, 3.0]) == pytest.approx((2.0, 2 - 2.919986 / 3**0.5, 2 + 2.919986 / 3**0.5), abs=1e-5)
    assert np.isnan(paired([1.0])[1])
    assert spreads_apart([0.0, 3.0, 6.0], [0.0, 1.0, 2.0]) == pytest.approx(0.2)
    assert spreads_apart([1.0, 1.0], [1.0, 2.0]) == 0
