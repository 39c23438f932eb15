"""Operations that hardly differ behind equal outputs: rounding of constants, or a fault."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from paralign.model import Divergence, Point, StageResult
from paralign.stages.common.judging import AGAINST, FLOAT64
from paralign.stages.forward import stage


def divergence(before, error, noise=2.4e-7):
    point = Point("layer", "softmax", "model.py:7")
    return Divergence(point, point, confirmed=True, what="missing", error_before=before, error=error, noise=noise)


@pytest.fixture
def exact(monkeypatch):
    """No side computes in a lower precision."""
    monkeypatch.setattr(stage.lower_precision, "anywhere", lambda *_: [])
    return SimpleNamespace(inputs=object())


@pytest.mark.parametrize(
    ("found", "method", "expected"),
    [
        ([divergence(5.5e-8, 7.6e-7)], FLOAT64, True),
        ([divergence(1e-15, 7.6e-7)], FLOAT64, False),  # exact inputs: the operation itself
        ([divergence(5.5e-8, 1e-3)], FLOAT64, False),  # more than rounding comes to
        ([divergence(5.5e-8, 7.6e-7), divergence(1e-15, 1e-6)], FLOAT64, False),
        ([divergence(5.5e-8, 7.6e-7)], AGAINST, False),
        ([], FLOAT64, False),
    ],
)
def test_what_enlarges_rounded_constants_is_no_fault(exact, found, method, expected):
    result = StageResult("forward")
    assert stage._is_rounding(exact, result, method, found) is expected
    assert any("model.py:7 differ by 5.5e-08" in note for note in result.notes) is expected


def test_where_a_side_computes_in_less_that_is_told(monkeypatch):
    monkeypatch.setattr(stage.lower_precision, "anywhere", lambda *_: ["the candidate computes in less"])
    result = StageResult("forward")
    assert stage._is_rounding(SimpleNamespace(inputs=object()), result, FLOAT64, [divergence(1e-15, 7.6e-7)])
    assert result.notes == ["the candidate computes in less"]
