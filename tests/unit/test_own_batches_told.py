"""What is said of both sides' own steps on their loaders' batches: only what was seen."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from paralign.model import ALIGNED, DIVERGED, ERROR, StageResult
from paralign.report.translating import translated
from paralign.stages.common import own_batches
from paralign.stages.data import other_types
from paralign.worker.protocol import OwnBatchTaken, Raised

RAISED = Raised("ValueError", "no such type", "", [])


def batch(dtype):
    return SimpleNamespace(records=[SimpleNamespace(name="dataloader_0", leaf="0", dtype=dtype, role="sample")])


@pytest.fixture
def said(monkeypatch):
    def say(verdict, *taken):
        monkeypatch.setattr(other_types.Data, "answer", lambda _: SimpleNamespace(facts={}))
        monkeypatch.setattr(own_batches, "stepped", lambda _: taken or None)
        result = StageResult("data", verdict=verdict)
        other_types.say(None, result, (batch("float32"), batch("float64")))
        return result.notes

    return say


@pytest.mark.parametrize("ran", ["train_step", "loss"])
def test_types_are_taken_only_where_both_steps_ran(said, ran):
    runs, fails = OwnBatchTaken(ran), OwnBatchTaken(ran, raised=RAISED)
    assert f"each side's own {ran} was run on the first batch" in said(ALIGNED, runs, runs)[-1]
    assert f"each side's own {ran} fails" in said(ALIGNED, fails, fails)[-1]
    assert len(said(ALIGNED)) == 1


def test_values_that_differ_are_not_called_equal(said):
    assert "with equal values" in said(ALIGNED)[0]
    assert said(DIVERGED) == said(ERROR) == []


@pytest.mark.parametrize(
    ("side", "before", "pair", "after"),
    [
        ("reference", DIVERGED, ERROR, DIVERGED),
        ("candidate", DIVERGED, DIVERGED, DIVERGED),
        ("reference", ALIGNED, ERROR, ERROR),
        ("candidate", ALIGNED, ERROR, ERROR),
    ],
)
def test_what_the_reference_cannot_do_is_no_fault_of_the_port(monkeypatch, side, before, pair, after):
    fails, runs = OwnBatchTaken("train_step", raised=RAISED), OwnBatchTaken("train_step")
    found = own_batches.Refusal(side, fails, RAISED, runs)
    monkeypatch.setattr(own_batches, "stepped", lambda _: (found.taken, found.other))
    monkeypatch.setattr(own_batches, "_refused", lambda *_: found)
    result = StageResult("backward", verdict=before)
    monkeypatch.setattr(own_batches, "_finding_by_types", lambda _, found: own_batches.finding(found))
    own_batches.judge(SimpleNamespace(framework=lambda _: "torch"), result)
    assert (result.pairs[-1].verdict, result.verdict) == (pair, after)


@pytest.mark.parametrize("listed", ["0 in float64 for float32", "0 in float64 for float32, 1 in int32 for int64, x in a for b …"])
def test_types_of_several_leaves_are_told_in_chinese(listed):
    told = translated(
        f"loss of the candidate fails on the first batch of its own loader, which gives {listed} (TypeError); it runs in the "
        "reference's element types"
    )
    assert "0 为 float64 而非 float32" in told
    assert " for " not in told


@pytest.mark.parametrize("watched", [True, False])
def test_operations_that_were_not_counted_are_not_said_to_be_none(watched):
    counted, other = OwnBatchTaken("loss", watched=True, halves={"bfloat16": 2}), OwnBatchTaken("loss", watched=watched)
    result = StageResult("loss", verdict=ALIGNED)
    own_batches._say_halves(result, (counted, other))
    assert any("that of the other side none" in note for note in result.notes) is watched
    assert any("those of the other side were not counted" in note for note in result.notes) is not watched
    assert [str(part) for part in result.coverage if "alone" in str(part)] == [str(part) for part in result.coverage]
    assert bool(result.coverage) is watched
    assert all("另一侧" in translated(note) for note in result.notes)
