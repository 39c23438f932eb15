"""Floating predictions that enlarge rounding: a difference of neighbours is rounding's business, another formula is the port's."""

from __future__ import annotations

import numpy as np
import pytest

from paralign.api import check
from paralign.model import ALIGNED, DIVERGED, Side

WIDTH = 40


@pytest.fixture
def model():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    layer = torch.nn.Linear(3, WIDTH).eval()
    with torch.no_grad():
        layer.weight.mul_(1e-3)
        layer.bias.copy_(torch.linspace(100.0, 100.01, WIDTH))
    return layer


def predicting(slope, *, inside=None):
    """A program that gives the slope of neighbouring outputs; ``inside``: a type that it casts its outputs to."""

    def predict(path, model):
        import torch

        given = torch.from_numpy(np.loadtxt(path, dtype="float32", ndmin=2)).to(model.weight.dtype)
        with torch.no_grad():
            outputs = model(given)[0]
            return {"slope": slope(outputs if inside is None else outputs.to(inside)).numpy()}

    return predict


def forwards(values):
    return (values[1:] * 3.7 - values[:-1] * 3.7) / 0.01


def other_order(values):
    return (values[1:] / 0.01 - values[:-1] / 0.01) * 3.7


def inferred(model, tmp_path, theirs, ours):
    (tmp_path / "x.txt").write_text("1 1 1\n")
    sides = [Side(framework="torch", model=model, predict=each) for each in (theirs, ours)]
    return check(*sides, inputs=np.ones((1, 3), "float32"), stages=["infer"], paths=[str(tmp_path / "x.txt")]).stages[-1]


def test_a_difference_that_is_none_in_float64_is_rounding_and_told(model, tmp_path):
    result = inferred(model, tmp_path, predicting(forwards), predicting(other_order))
    assert result.verdict == ALIGNED, [pair.notes for pair in result.pairs]
    assert any("in float64 they agree" in note for note in result.notes), result.notes


def test_a_factor_that_rounding_could_hide_is_a_finding(model, tmp_path):
    result = inferred(model, tmp_path, predicting(forwards), predicting(lambda values: other_order(values) * 1.001))
    assert result.verdict == DIVERGED


def test_a_port_that_computes_in_float32_by_itself_is_not_excused(model, tmp_path):
    import torch

    result = inferred(model, tmp_path, predicting(forwards), predicting(other_order, inside=torch.float32))
    assert result.verdict == DIVERGED


def test_a_program_that_cannot_run_in_float64_is_judged_as_before(model, tmp_path):
    import torch

    def single(path, model):
        with torch.no_grad():
            return {"slope": other_order(model(torch.ones(1, 3))[0]).numpy()}  # fails with weights in float64

    result = inferred(model, tmp_path, predicting(forwards), single)
    assert result.verdict == DIVERGED
