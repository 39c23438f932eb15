"""The band of the reference's trainings: what leaves it ends, what keeps to it goes on, logs that cannot say it are refused."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest

from paralign.errors import CaptureFormatError, UsageError
from paralign.model import DIVERGED, UNDERPOWERED
from paralign.run.trainings import read_trainings
from paralign.trainlog import Band, Parted, TrainLog, Watchdog
from paralign.trainlog.lines import EVAL, TRAIN, Row

sys.path.insert(0, str(Path(__file__).parent))
from test_stages_train import Net, checked, side


def curve(seed, *, steps=120, shift=0.0, since=60):
    draw = np.random.default_rng(seed)
    at = np.arange(steps)
    base = 2 * np.exp(-at / 40) + 0.5
    return base * (1 + 0.05 * draw.normal()) + 0.05 * draw.normal(size=steps) + shift * (at >= since)


def rows(values, figure="loss"):
    return [Row(TRAIN, 0, step, {figure: float(value)}) for step, value in enumerate(values)]


def left(band, made):
    """The batch at which a training is said to have left, and why."""
    return next(((row.iteration, why) for row in made if (why := band.look(row))), (None, ""))


def references(count=5):
    return [rows(curve(seed)) for seed in range(count)]


def test_other_seeds_of_the_same_program_keep_to_the_band():
    ends = [left(Band.of_rows(references()), rows(curve(100 + seed)))[0] for seed in range(200)]
    assert sum(end is not None for end in ends) <= 0.06 * len(ends)


@pytest.mark.parametrize("shift", [1.5, -1.5])
def test_a_curve_that_parts_is_seen_soon_after_and_never_before(shift):
    for seed in range(20):
        at, why = left(Band.of_rows(references()), rows(curve(100 + seed, shift=shift)))
        assert 60 < at < 80
        assert why.startswith("loss has left the band of the reference's 5 trainings: ")
        assert "outside since epoch 0, batch" in why


def test_what_is_better_may_be_so_by_any_amount():
    settings = {"better": {"loss": "lower"}}
    assert left(Band.of_rows(references(), **settings), rows(curve(7, shift=-1.5)))[0] is None
    assert left(Band.of_rows(references(), **settings), rows(curve(7, shift=1.5)))[0] is not None


def test_nan_leaves_at_once_but_not_where_the_reference_has_broken_down_too():
    assert left(Band.of_rows(references()), rows([*curve(7)[:5], math.nan])) == (5, "loss is nan at epoch 0, batch 5")
    broken = [rows([*curve(seed)[:50], math.nan]) for seed in range(3)]
    assert left(Band.of_rows(broken), rows([*curve(7)[:50], math.nan, 1e9, 1e9, 1e9]))[0] is None


def test_one_log_needs_a_margin_and_evaluations_are_taken_as_they_are():
    one = [Row(EVAL, epoch, -1, {"acc": 0.9}) for epoch in range(10)]
    with pytest.raises(UsageError, match="1 trainings do not say how far another seed would be"):
        Band.of_rows([one])
    band = Band.of_rows([one], margin=0.1, patience=1)
    assert band.look(Row(EVAL, 0, -1, {"acc": 0.82})) == ""
    assert band.look(Row(EVAL, 1, -1, {"acc": 0.8})).startswith(
        "acc has left the band of the reference's training: 0.8 at epoch 1, 0.9 ± 0.09"
    )


def test_a_training_ends_where_it_leaves_and_its_log_is_whole(tmp_path):
    logs = []
    for seed in range(3):
        logs.append(tmp_path / f"ref{seed}.log")
        assert train(logs[-1], curve(seed)) == 120
    with pytest.raises(Parted, match="loss has left the band of the reference's 3 trainings"):
        train(tmp_path / "port.log", curve(9, shift=5.0), against=Band(logs))
    made = (tmp_path / "port.jsonl").read_text().splitlines()
    assert 63 <= len(made) < 75
    assert train(tmp_path / "right.log", curve(9), against=Band(logs, figures=["loss"])) == 120


def train(path, values, **settings):
    with TrainLog(str(path), every=1, show=False, rank=0, **settings) as log:
        for step, _ in log.batches(values, 0):
            log.step(samples=4, loss=float(values[step]), lr=1e9 * step)
    return len(log.rows)


def test_a_watchdog_ends_what_has_parted_instead_of_going_back(tmp_path):
    dog = Watchdog(list, list, str(tmp_path), every=1, against=Band.of_rows(references()))
    with pytest.raises(Parted):
        list(map(lambda step, value: dog.step(step, loss=value), range(120), curve(9, shift=3.0)))
    assert dog.left == 3


def test_rows_at_other_places_are_said_to_be_watched_by_nothing(capsys):
    band = Band.of_rows(references())
    for step in range(40):
        assert band.look(Row(TRAIN, 7, step, {"loss": 99.0})) == ""
    assert capsys.readouterr().err.count("nothing is watched") == 1


WRONG = {
    "no-log": ({}, "needs the log"),
    "figure": ({"figures": ["acc"]}, "not all logs of the reference have 'acc'"),
    "window": ({"window": 0}, "must be at least 1"),
    "factor": ({"factor": math.nan}, "must be at least 1"),
    "better": ({"better": {"loss": "up"}}, "'lower' and 'higher'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_settings_that_cannot_work_are_refused(name):
    settings, why = WRONG[name]
    with pytest.raises(UsageError, match=why):
        Band.of_rows([] if name == "no-log" else references(), **settings)


HOSTILE = {
    "text": "loss: 3\nloss: 4\n",
    "numbers": "[1]\n{}\n",
    "values": '{"kind": "TRAIN", "epoch": 0, "iter": 0, "values": {"loss": [1]}}\n{}\n',
    "deep": "[" * 100_000 + "\n{}\n",
    "infinite": '{"kind": "TRAIN", "epoch": 1e999, "iter": 0, "values": {"loss": 1}}\n{}\n',
    "empty": "",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_files_that_are_no_log_are_refused_with_their_line(name, tmp_path):
    (tmp_path / "ref.jsonl").write_text(HOSTILE[name])
    with pytest.raises(CaptureFormatError, match="no row of a training"):
        Band(tmp_path / "ref.jsonl", margin=0.1)


def test_a_log_without_json_lines_is_told_how_to_get_them(tmp_path):
    (tmp_path / "ref.log").write_text("[Epoch 0, iter: 0] loss: 1.0\n")
    with pytest.raises(UsageError) as caught:
        Band(tmp_path / "ref.log", margin=0.1)
    assert "paralign log convert" in caught.value.hint
    with pytest.raises(UsageError, match="no file of JSON lines"):
        Band(tmp_path / "none.jsonl", margin=0.1)


def test_the_stage_ends_candidates_that_leave_the_band_of_the_references_runs():
    result = checked(side(), side(net=lambda: Net(4.0)), runs=4, exact_steps=0, stop_when_parted=True, cross="never")
    band = next(p for p in result.pairs if p.key == "band of the reference's trainings")
    assert (result.verdict, band.verdict) == (DIVERGED, DIVERGED)
    assert "trainings of the candidate were ended early: loss has left the band" in band.notes[0]


def test_the_stage_goes_on_as_ever_with_candidates_that_keep_to_the_band():
    made = [checked(side(), side(), runs=3, exact_steps=0, stop_when_parted=stop, cross="never") for stop in (False, True)]
    assert [r.verdict for r in made] == [UNDERPOWERED, UNDERPOWERED]
    assert [p.notes for p in made[0].pairs] == [p.notes for p in made[1].pairs]


def test_a_band_of_too_few_runs_is_refused(tmp_path):
    with pytest.raises(UsageError, match="needs runs = 3 or more"):
        read_trainings({"stop_when_parted": True, "runs": 2}, tmp_path / "paralign.toml")
