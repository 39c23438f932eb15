"""Clamps whose bounds no value reaches: other bounds are told, the same ones in other words are no difference."""

from __future__ import annotations

import numpy as np
import pytest

from paralign import Side, check
from paralign.model import ALIGNED, UNDERPOWERED

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")
T, P = torch.nn.functional, paddle.nn.functional
INPUTS = np.random.default_rng(0).standard_normal((4, 16)).astype("float32")


def counted(x):
    """Whole numbers from 1 on, one for each column."""
    return ((x * 0 + 1).long() if isinstance(x, torch.Tensor) else (x * 0 + 1).astype("int64")).cumsum(-1)


def forward(theirs, ours, factor=1.0):
    class Reference(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(16, 32), torch.nn.Linear(32, 8)

        def forward(self, x):
            return self.second(theirs(self.first(x)))

    class Port(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.first, self.second = paddle.nn.Linear(16, 32), paddle.nn.Linear(32, 8)

        def forward(self, x):
            return self.second(ours(self.first(x)))

    sides = Side(framework="torch", functions={"build_model": Reference}), Side(framework="paddle", functions={"build_model": Port})
    return check(*sides, inputs=factor * INPUTS, stages=["weights", "forward"])["forward"]


@pytest.mark.parametrize(
    ("theirs", "ours", "said"),
    [
        (T.relu6, P.relu, "0 to inf, the reference 0 to 6"),
        (lambda x: T.hardtanh(x, -10, 10), lambda x: P.hardtanh(x, -20, 20), "-20 to 20, the reference -10 to 10"),
        (lambda x: torch.clamp(x, -8, 8), lambda x: paddle.clip(x, min=-8), "-8 to inf, the reference -8 to 8"),
    ],
)
def test_other_bounds_that_no_value_reaches_are_underpowered_and_diverge_where_values_do(theirs, ours, said):
    result = forward(theirs, ours)
    assert result.verdict == UNDERPOWERED
    assert any(said in warning and __file__ in warning for warning in result.warnings), result.warnings
    assert forward(theirs, ours, factor=100.0).verdict == "diverged"


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (T.relu6, P.relu6),
        (lambda x: T.hardtanh(x, -9, 9), lambda x: paddle.clip(paddle.clip(x, min=-9), max=9)),
        (T.relu6, lambda x: paddle.clip(P.relu(x), max=6)),
        (T.relu, lambda x: paddle.clip(x, min=0)),
        (lambda x: T.hardtanh(x, -9, 9), lambda x: paddle.minimum(paddle.maximum(x, paddle.to_tensor(-9.0)), paddle.to_tensor(9.0))),
        (lambda x: x.clamp(-7, 7) + x.clamp(-9, 9), lambda x: x.clip(-9, 9) + x.clip(-7, 7)),
        (T.hardswish, lambda x: x * P.relu6(x + 3) / 6),
        (lambda x: x * counted(x).clamp(min=0), lambda x: x * counted(x).clip(min=0).astype(x.dtype)),
        (lambda x: x * counted(x).int().clamp(max=99), lambda x: x * counted(x).astype("int32").clip(max=99).astype(x.dtype)),
        (lambda x: x * counted(x).float().clamp(min=1e-3), lambda x: x * counted(x).astype("float32").clip(min=1e-3).astype(x.dtype)),
        (lambda x: torch.softmax(x, -1).clamp(1e-6, 1 - 1e-6), lambda x: paddle.clip(P.softmax(x, -1), 1e-6, 1 - 1e-6)),
    ],
)
def test_the_same_bounds_in_other_words_are_aligned(theirs, ours):
    result = forward(theirs, ours)
    assert result.verdict == ALIGNED, (result.warnings, result.notes)
    assert not any("bounds" in said for said in [*result.warnings, *result.notes])


def test_a_clamp_that_the_port_lacks_is_said():
    result = forward(lambda x: T.gelu(x).clamp(-90, 90), P.gelu)
    assert result.verdict == ALIGNED
    assert any("does not have, were not tested, at 1 places" in note and "-90 to 90" in note for note in result.notes)
