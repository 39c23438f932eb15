"""A side that alone computes in a lower precision than it is given: counted in the row of ``forward``, whichever side it is."""

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
            self.first, self.second = torch.nn.Linear(16, 32), torch.nn.Linear(32, 4)

        def forward(self, x):
            return theirs(self, x)

    class Port(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.first, self.second = paddle.nn.Linear(16, 32), paddle.nn.Linear(32, 4)

        def forward(self, x):
            return ours(self, x)

    sides = Side(framework="torch", functions={"build_model": Reference}), Side(framework="paddle", functions={"build_model": Port})
    return check(*sides, inputs=INPUTS, stages=["weights", "forward"])["forward"]


def said(result):
    return [str(part) for part in result.coverage if "alone" in part.what]


def plain(m, x):
    return m.second(m.first(x).tanh())


def autocast(m, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return plain(m, x).float()


def ported_half(m, x):
    held = m.first(x)
    return m.second((held.astype("float16").astype("float32") if held.dtype == paddle.float32 else held).tanh())


def half(m, x):
    held = m.first(x)
    return m.second((held.half().float() if held.dtype == torch.float32 else held).tanh())


def logged(m, x):
    held = m.first(x)
    held.to(torch.bfloat16).abs().max()
    return m.second(held.tanh())


@pytest.mark.parametrize(("theirs", "dtype"), [(autocast, "bfloat16"), (half, "float16")])
def test_a_lower_precision_in_the_reference_alone_is_counted_in_the_row(theirs, dtype):
    result = forward(theirs, plain)
    assert result.verdict == ALIGNED, (result.warnings, result.notes)
    (part,) = said(result)
    count = int(part.split()[0])
    assert count >= 1
    assert part == f"{count} operations in {dtype} in the reference alone"
    assert any(f"computes {count} operations in a lower precision" in note for note in result.notes)


def test_a_lower_precision_in_the_candidate_alone_is_counted_where_it_diverges():
    result = forward(plain, ported_half)
    assert result.verdict == DIVERGED
    assert said(result) == ["1 operations in float16 in the candidate alone"]


@pytest.mark.parametrize(("theirs", "ours"), [(plain, plain), (logged, plain)], ids=["neither", "in a log alone"])
def test_what_no_output_feels_is_not_counted(theirs, ours):
    result = forward(theirs, ours)
    assert result.verdict == ALIGNED, (result.warnings, result.notes)
    assert said(result) == []


def test_what_both_sides_do_is_not_counted():
    result = forward(half, ported_half)
    assert result.verdict == ALIGNED, (result.warnings, result.notes)
    assert said(result) == []
