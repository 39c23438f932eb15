"""Whole numbers of predictions: a colour between two levels is rounding's business, another rounding is the port's."""

from __future__ import annotations

import numpy as np
import pytest

from paralign.api import check
from paralign.model import ALIGNED, DIVERGED, Side

WIDTH = 200


@pytest.fixture
def model():
    torch = pytest.importorskip("torch")
    layer = torch.nn.Linear(3, WIDTH).eval()
    with torch.no_grad():
        layer.weight.copy_(torch.linspace(0.01, 40.0, 3 * WIDTH).reshape(WIDTH, 3))
        layer.bias.zero_()
        layer.weight[7] = torch.tensor([0.5, 1.0, 1.0])  # 2.5 of ones: between two levels
    return layer


def predicting(act):
    def predict(path, model):
        import torch

        with torch.no_grad():
            return {"picture": act(model(torch.from_numpy(np.loadtxt(path, dtype="float32", ndmin=2))).numpy())}

    return predict


def levels(value):
    return np.rint(value).astype("uint8")


def inferred(model, tmp_path, act, **more):
    (tmp_path / "x.txt").write_text("1 1 1\n")
    sides = [Side(framework="torch", model=model, predict=predicting(each)) for each in (levels, act)]
    return check(*sides, inputs=np.ones((1, 3), "float32"), stages=["infer"], paths=[str(tmp_path / "x.txt")], **more).stages[-1]


def test_a_level_that_rounding_decides_is_left_out_and_told(model, tmp_path):
    stage = inferred(model, tmp_path, lambda value: np.rint(value * np.float32(1 + 2e-7)).astype("uint8"))
    assert stage.verdict == ALIGNED, [p.key for p in stage.wrong]
    assert any("1 of 200 whole numbers differ, where the reference's own change, too" in note for note in stage.notes)


@pytest.mark.parametrize("act", [np.floor, lambda value: np.rint(value + 0.02)])
def test_another_rounding_is_a_finding(model, tmp_path, act):
    stage = inferred(model, tmp_path, lambda value: act(value).astype("uint8"))
    assert stage.verdict == DIVERGED


def test_one_level_elsewhere_is_a_finding(model, tmp_path):
    def one_more(value):
        made = levels(value)
        made[0, 20] += 1
        return made

    assert inferred(model, tmp_path, one_more).verdict == DIVERGED


def test_a_level_that_rounding_does_not_reach_is_a_finding_where_it_decides(model, tmp_path):
    def far(value):
        made = levels(value)
        made[0, 7] = 90
        return made

    assert inferred(model, tmp_path, far).verdict == DIVERGED
