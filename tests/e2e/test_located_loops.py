"""A step that is missing in a loop over modules: the first module takes the value rightly, the next ones do not."""

from __future__ import annotations

import numpy as np
import pytest

from paralign import check

pytest.importorskip("torch")
pytest.importorskip("paddle")

pytestmark = [pytest.mark.torch, pytest.mark.paddle]

REFERENCE = """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter, self.back, self.ahead = nn.Linear(6, 9), nn.Linear(9, 6), nn.Linear(9, 4)

    def forward(self, x):
        hidden = torch.tanh(self.enter(torch.cat([x], dim=-1)))
        return self.back(hidden), self.ahead(hidden)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))

    def forward(self, x):
        total = 0
        for block in self.blocks:
            back, ahead = block(x)
            x = x - back
            total = total + ahead
        return total


def build_model():
    torch.manual_seed(0)
    return Net()
"""

CANDIDATE = """
import paddle
from paddle import nn


class Stack(nn.Layer):
    def __init__(self):
        super().__init__()
        self.enter, self.back, self.ahead = nn.Linear(6, 9), nn.Linear(9, 6), nn.Linear(9, 4)

    def forward(self, series):
        hidden = paddle.tanh(self.enter(paddle.concat([series], axis=-1)))
        return self.back(hidden), self.ahead(hidden)


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.stacks = nn.LayerList([Stack() for _ in range(3)])

    def season(self, rest):
        total = 0.0
        for stack in self.stacks:
            explained, expected = stack(rest)
            rest = rest - explained
            total = total + expected
        return total

    def forward(self, x):
        return self.season(x)


def build_model():
    return Net()
"""


@pytest.fixture
def located(written_side):
    """The lines of the candidate that are named, their texts, for a port in which one text is exchanged."""

    def run(old, new):
        assert CANDIDATE.count(old) == 1
        text = CANDIDATE.replace(old, new)
        inputs = np.random.default_rng(0).standard_normal((4, 6)).astype("float32")
        (stage,) = check(
            written_side("torch", REFERENCE, "build_model"), written_side("paddle", text, "build_model"), inputs=inputs, stages=["forward"]
        ).stages
        lines = [int(d.candidate.source.rpartition(":")[2]) for d in stage.divergences]
        return [text.splitlines()[line - 1].strip() for line in lines]

    return run


def test_the_call_in_the_loop_is_named_where_its_update_is_missing(located):
    first = located("            rest = rest - explained\n", "")[0]
    assert first in ("explained, expected = stack(rest)", "for stack in self.stacks:")


def test_a_right_loop_has_no_such_line(located):
    assert located("rest = rest - explained", "rest = rest - explained * 1.0") == []
