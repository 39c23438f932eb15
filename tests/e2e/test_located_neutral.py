"""Parameters that are 1 or 0 when they are made: the forward pass hides what a port forgets to do with them, gradients tell."""

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


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter, self.leave = nn.Linear(6, 9), nn.Linear(9, 4)
        self.scale, self.shift = nn.Parameter(torch.ones(())), nn.Parameter(torch.zeros(9))

    def forward(self, x):
        hidden = torch.tanh(self.enter(x))
        hidden = hidden * self.scale
        hidden = torch.sigmoid(hidden + self.shift)
        return self.leave(hidden)


def build_model():
    torch.manual_seed(0)
    return Net()


def loss(outputs, labels):
    return ((outputs - labels) ** 2).mean()
"""

CANDIDATE = """
import paddle
from paddle import nn
from paddle.nn.initializer import Constant


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.enter, self.leave = nn.Linear(6, 9), nn.Linear(9, 4)
        self.scale = self.create_parameter([1], default_initializer=Constant(1.0))
        self.shift = self.create_parameter([9], default_initializer=Constant(0.0))

    def forward(self, x):
        hidden = paddle.tanh(self.enter(x))
        hidden = hidden * self.scale
        hidden = paddle.nn.functional.sigmoid(hidden + self.shift)
        return self.leave(hidden)


def build_model():
    return Net()


def loss(outputs, labels):
    return ((outputs - labels) ** 2).mean()
"""


@pytest.fixture
def located(written_side):
    """The stage ``backward`` and the lines of the candidate that it names, for a port in which one text is exchanged."""

    def run(old, new):
        assert CANDIDATE.count(old) == 1
        text = CANDIDATE.replace(old, new)
        random = np.random.default_rng(0)
        values = {"inputs": random.standard_normal((4, 6)).astype("float32"), "labels": random.standard_normal((4, 4)).astype("float32")}
        stages = check(
            written_side("torch", REFERENCE, "build_model", "loss"),
            written_side("paddle", text, "build_model", "loss"),
            stages=["forward", "backward"],
            **values,
        )
        lines = [int(d.candidate.source.rpartition(":")[2]) for d in stages["backward"].divergences]
        return stages, [text.splitlines()[line - 1].strip() for line in lines]

    return run


@pytest.mark.parametrize(
    ("old", "new", "line", "forward"),
    [
        ("hidden = hidden * self.scale", "hidden = hidden", "hidden = hidden", "aligned"),
        ("sigmoid(hidden + self.shift)", "sigmoid(hidden)", "hidden = paddle.nn.functional.sigmoid(hidden)", "diverged"),
        (
            "sigmoid(hidden + self.shift)",
            "sigmoid(hidden - self.shift)",
            "hidden = paddle.nn.functional.sigmoid(hidden - self.shift)",
            "diverged",
        ),
    ],
    ids=["a scale forgotten", "a shift forgotten", "a shift of the wrong sign"],
)
def test_what_is_done_with_a_neutral_parameter_is_named_where_it_should_be_done(located, old, new, line, forward):
    """Parameters of zeros hide what they are added to from the forward pass, which moves them; of others the backward pass tells."""
    stages, lines = located(old, new)
    assert (stages["forward"].verdict, stages["backward"].verdict) == (forward, "diverged")
    if forward == "diverged":
        assert stages["forward"].divergence.candidate.code == line
    assert lines[0] == line
    assert any("moved by noise" in note for note in stages["backward"].notes)


def test_a_right_port_stays_aligned(located):
    stages, lines = located("hidden * self.scale", "self.scale * hidden")
    assert (stages["forward"].verdict, stages["backward"].verdict, lines) == ("aligned", "aligned", [])
