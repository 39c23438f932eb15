"""A side that alone computes in a higher precision than it is given: said in the row, and a fault where the other's outputs feel it."""

from __future__ import annotations

import numpy as np
import pytest

from paralign import Side, check
from paralign.model import ALIGNED, DIVERGED

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

INPUTS = np.random.default_rng(0).standard_normal((4, 16)).astype("float32")


def forward(theirs, ours):
    class Reference(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Linear(16, 32)

        def forward(self, x):
            return theirs(self.first(x))

    class Port(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.first = paddle.nn.Linear(16, 32)

        def forward(self, x):
            return ours(self.first(x))

    sides = Side(framework="torch", functions={"build_model": Reference}), Side(framework="paddle", functions={"build_model": Port})
    return check(*sides, inputs=INPUTS, stages=["weights", "forward"])["forward"]


def said(result):
    return [str(part) for part in result.coverage if "alone" in part.what]


def wide(y):
    return torch.log_softmax(y.double(), -1).to(y.dtype)


def ported_wide(y):
    return paddle.nn.functional.log_softmax(y.astype("float64"), -1).astype(y.dtype)


def plain(y):
    return torch.log_softmax(y, -1)


def ported_plain(y):
    return paddle.nn.functional.log_softmax(y, -1)


def test_a_harmless_float64_in_one_side_is_a_remark_in_the_row():
    result = forward(wide, ported_plain)
    assert result.verdict == ALIGNED, (result.warnings, result.notes)
    assert said(result) == ["1 operations in float64 in the reference alone"]
    assert "values" not in " ".join(map(str, result.coverage))
    assert any("first at test_finer_sides.py:" in note for note in result.notes)
    result = forward(plain, ported_wide)
    assert result.verdict == ALIGNED, (result.warnings, result.notes)
    assert said(result) == ["1 operations in float64 in the candidate alone"]


@pytest.mark.parametrize(("theirs", "ours"), [(plain, ported_plain), (wide, ported_wide)], ids=["neither", "both"])
def test_what_both_sides_do_alike_is_not_said(theirs, ours):
    result = forward(theirs, ours)
    assert result.verdict == ALIGNED
    assert said(result) == []


@pytest.mark.parametrize("back", [False, True], ids=["float64 out", "float32 out"])
def test_a_float64_that_the_port_leaves_out_is_a_fault_where_its_outputs_feel_it(back):
    def theirs(y):
        made = y.double() + 1000.0 - 1000.0
        return made.to(y.dtype) if back else made

    def ours(y):
        return y + 1000.0 - 1000.0

    result = forward(theirs, ours)
    assert result.verdict == DIVERGED, (result.warnings, result.notes, said(result))
    assert result.divergence.reference.code.startswith("made = y.double()")
    assert result.divergence.candidate.code == "return y + 1000.0 - 1000.0"


def test_a_constant_in_float64_that_promotes_nothing_is_not_said():
    result = forward(lambda y: y * torch.tensor(0.1, dtype=torch.float64), lambda y: y * 0.1)
    assert result.verdict == ALIGNED, (result.warnings, result.notes)
    assert said(result) == []


def test_promotion_by_a_vector_in_float64_is_said():
    result = forward(lambda y: (y * torch.full((32,), 0.1, dtype=torch.float64)).to(y.dtype), lambda y: y * 0.1)
    assert result.verdict == ALIGNED, (result.warnings, result.notes)
    assert said(result) == ["2 operations in float64 in the reference alone"]


def test_values_that_one_side_gives_in_another_type_are_counted():
    result = forward(lambda y: {"one": y.double(), "two": y}, lambda y: {"one": y * 1, "two": y})
    assert result.verdict == ALIGNED, (result.warnings, result.notes)
    assert "1 values in float32 for float64" in [str(part) for part in result.coverage]


def test_a_loss_in_another_type_is_said():
    def sides(theirs, ours):
        functions = [
            {"build_model": m, "loss": loss}
            for m, loss in ((lambda: torch.nn.Linear(16, 2), theirs), (lambda: paddle.nn.Linear(16, 2), ours))
        ]
        return Side(framework="torch", functions=functions[0]), Side(framework="paddle", functions=functions[1])

    given = sides(lambda y, t: (y.double() ** 2).mean() * t.mean(), lambda y, t: (y**2).mean() * t.mean())
    result = check(*given, inputs=INPUTS, labels=np.ones(4, "float32"), stages=["loss"])["loss"]
    assert result.verdict == ALIGNED, (result.warnings, result.notes)
    assert "1 values in float32 for float64" in [str(part) for part in result.coverage]
