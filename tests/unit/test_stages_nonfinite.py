"""Outputs, losses and gradients that are NaN on both sides: nothing was compared, and the operation that made them is named."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from paralign import Side, check
from paralign.model import ALIGNED, UNDERPOWERED, Coverage
from paralign.report import text

torch = pytest.importorskip("torch")


class Spoilt(torch.nn.Module):
    """Makes NaN of the columns from ``first`` on, times ``factor``: a port with another factor is another model."""

    def __init__(self, factor, first):
        super().__init__()
        self.fc = torch.nn.Linear(6, 4)
        self.factor, self.first = factor, first

    def forward(self, x):
        x = self.fc(x)
        masked = torch.full((4,), -torch.inf).exp()  # infinite on the way, and no fault
        spoilt = x[:, self.first :] * self.factor
        spoilt = spoilt * float("nan")  # here
        return torch.cat([x[:, : self.first], spoilt], 1) + masked


class Root(torch.nn.Module):
    """Right outputs with gradients that are NaN: the root of zero."""

    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(6, 4)

    def forward(self, x):
        return (self.fc(x) * 0).abs().sqrt() + self.fc(x)


def side(build):
    functions = {
        "build_model": build,
        "loss": lambda outputs, labels: (outputs * labels).sum(),
        "metric": lambda outputs, labels: {"mean": (outputs * labels).mean(), "first": outputs[:, 0].mean()},
        "build_optimizer": lambda model: torch.optim.SGD(model.parameters(), lr=0.1),
    }
    return Side(framework="torch", functions=functions)


def checked(reference, candidate, *stages):
    inputs = np.random.RandomState(0).randn(2, 6).astype("float32")
    return check(side(reference), side(candidate), inputs=inputs, labels=np.ones((2, 4), "float32"), stages=list(stages))


def row(result, stage):
    found = text.table(result)
    verdicts = list(found.columns[1].cells)
    return str(verdicts[[s.name for s in result.stages].index(stage)])


def test_what_is_nowhere_finite_is_underpowered_in_every_stage_and_its_operation_is_named():
    result = checked(lambda: Spoilt(1, 0), lambda: Spoilt(7, 0), "forward", "metric", "loss", "backward")
    assert [s.verdict for s in result.stages] == [UNDERPOWERED] * 4
    for stage in result.stages:
        for name in ("reference", "candidate"):
            made = next(n for n in stage.notes if n.startswith(f"{name}: NaN first made by"))
            assert "aten.mul.Tensor" in made
            line = int(re.search(r":(\d+);", made)[1])
            assert Path(__file__).read_text(encoding="utf-8").splitlines()[line - 1].endswith("# here")
    assert row(result, "forward") == "underpowered, 0 of 8 elements"


def test_what_is_partly_finite_is_compared_there_and_the_row_says_how_much():
    result = checked(lambda: Spoilt(1, 2), lambda: Spoilt(7, 2), "forward", "metric")
    assert result["forward"].verdict == ALIGNED
    assert result["forward"].coverage == [Coverage("elements", 4, 8)]
    assert row(result, "forward") == "aligned, 4 of 8 elements"
    assert result.to_dict()["stages"][0]["coverage"] == [{"what": "elements", "compared": 4, "total": 8}]
    assert result["metric"].verdict == UNDERPOWERED  # one of its two figures was never compared


def noted(stage):
    return [note for note in stage.notes if "NaN" in note]


def test_what_is_partly_finite_on_both_sides_is_not_aligned_in_silence():
    stage = checked(lambda: Spoilt(1, 2), lambda: Spoilt(1, 2), "forward")["forward"]
    assert stage.verdict == ALIGNED
    count, *made = noted(stage)
    assert count == "output: 4 of 8 elements are NaN or infinite at the same places of both sides, and were not compared"
    for note, name in zip(made, ("reference", "candidate"), strict=True):
        assert re.match(rf"{name}: NaN first made by the model itself  aten.mul.Tensor  .*; it was given values from -?\d.* to -?\d", note)


def test_the_inputs_of_what_made_it_are_told_infinities_included():
    class Difference(torch.nn.Module):
        def forward(self, x):
            top = x.new_full((2, 6), torch.inf)
            return torch.cat([x, top - top * 2], 1)

    stage = checked(Difference, Difference, "forward")["forward"]
    made = [note for note in noted(stage) if "first made by" in note]
    assert len(made) == 2
    assert all("aten.sub.Tensor" in note and note.endswith("; it was given values from inf to inf") for note in made)


def test_finite_values_get_no_note_of_what_is_not():
    stage = checked(lambda: torch.nn.Linear(6, 4), lambda: torch.nn.Linear(6, 4), "forward")["forward"]
    assert not noted(stage)


def test_a_metric_that_leaves_absent_classes_nan_is_not_asked_for_the_operation():
    def ious(outputs, labels):
        return {"iou": np.array([float(outputs.mean()), np.nan])}

    functions = {"build_model": lambda: torch.nn.Linear(6, 4), "metric": ious}
    one, other = (Side(framework="torch", functions=functions) for _ in range(2))
    inputs = np.random.RandomState(0).randn(2, 6).astype("float32")
    result = check(one, other, inputs=inputs, labels=np.ones((2, 4), "float32"), stages=["metric"])["metric"]
    assert (result.verdict, noted(result)) == (ALIGNED, [])


def test_gradients_that_are_nan_are_underpowered_though_the_outputs_are_right():
    result = checked(Root, Root, "forward", "backward")
    assert [s.verdict for s in result.stages] == [ALIGNED, UNDERPOWERED]
    assert any("the gradient is first not finite behind the model itself  aten.sqrt.default" in n for n in result["backward"].notes)


def linear(factor, slope):
    """A loss that is NaN, with a gradient that is not."""
    functions = {
        "build_model": lambda: torch.nn.Linear(6, 4),
        "loss": lambda outputs, labels: (slope * outputs * labels).sum() + (outputs.detach() * 0 + factor).sum(),
        "build_optimizer": lambda model: torch.optim.SGD(model.parameters(), lr=0.1),
    }
    return Side(framework="torch", functions=functions)


def test_a_loss_that_is_nan_is_named_before_the_gradients_that_differ():
    inputs, labels = np.random.RandomState(0).randn(2, 6).astype("float32"), np.ones((2, 4), "float32")

    def judged(factor, *stages):
        return check(linear(factor, 1), linear(factor, 2), inputs=inputs, labels=labels, stages=list(stages))

    result = judged(float("nan"), "weights", "loss", "backward")
    for stage, key in (("loss", "loss"), ("backward", "loss_0")):
        assert result[stage].verdict == "diverged"
        assert result[stage].notes[0] == f"{key} is finite on neither side, so that it was not compared: look at it before the gradients"
    sound = judged(0.0, "weights", "loss")
    assert not any("finite on neither side" in note for note in sound["loss"].notes)


def test_a_class_that_is_absent_from_one_batch_is_no_gap():
    def some(value):
        def metric(outputs, labels):
            with np.errstate(all="ignore"):
                return {"class": outputs[labels == 0].sum() / (labels == 0).sum() * value}

        return Side(framework="numpy", functions={"build_model": lambda: lambda x: x, "metric": metric})

    inputs, labels = np.ones((4, 2), "float32"), np.array([0, 0, 1, 1])
    result = check(some(1.0), some(1.0), inputs=inputs, labels=labels, stages=["metric"])["metric"]
    absent = check(some(1.0), some(2.0), inputs=inputs, labels=np.ones_like(labels), stages=["metric"])["metric"]
    assert (result.verdict, absent.verdict) == (ALIGNED, UNDERPOWERED)
