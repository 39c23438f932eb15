"""Outputs that are buffers of the model, handed out as they are, beside outputs that tell more."""

from __future__ import annotations

import numpy as np
import pytest

from paralign import Side, check
from paralign.model import ALIGNED, UNDERPOWERED

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")


class Queued(torch.nn.Module):
    """Logits, the labels of a queue that is empty yet, and the best class."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(6, 4)
        self.register_buffer("queue", torch.full((5,), -1))

    def forward(self, x):
        return self.told(self.linear(x), self.queue.clone())

    def told(self, logits, queue):
        return {"logits": logits, "labels": queue}


class PortedQueue(paddle.nn.Layer):
    """The same in Paddle."""

    def __init__(self):
        super().__init__()
        self.linear = paddle.nn.Linear(6, 4)
        self.register_buffer("queue", paddle.full([5], -1, dtype="int64"))

    def forward(self, x):
        return self.told(self.linear(x), self.queue.clone())

    def told(self, logits, queue):
        return {"logits": logits, "labels": queue}


def judged(told):
    functions = ({"build_model": type("Told", (base,), {"told": told})} for base in (Queued, PortedQueue))
    sides = (Side(framework=name, functions=each) for name, each in zip(("torch", "paddle"), functions, strict=True))
    return check(*sides, inputs=np.linspace(-1.0, 1.0, 18, dtype="float32").reshape(3, 6), stages=["weights", "forward"])["forward"]


def test_a_buffer_beside_what_tells_more_weakens_nothing():
    result = judged(lambda _, logits, queue: {"logits": logits, "labels": queue})
    assert (result.verdict, result.warnings) == (ALIGNED, [])
    assert "output.labels is constant, as the buffer queue is, which it hands out: nothing of it is computed" in result.notes


def test_a_buffer_alone_shows_nothing():
    assert judged(lambda *given: {"labels": given[-1]}).verdict == UNDERPOWERED


def test_a_constant_that_is_computed_is_too_weak_beside_others():
    result = judged(lambda *given: {"logits": given[1], "best": (given[1] > 1e9).sum(1)})
    assert result.verdict == UNDERPOWERED
    assert any("output.best is constant" in warning for warning in result.warnings)


class Normed(torch.nn.Module):
    """Logits, and a count that is zero as fresh statistics are."""

    def __init__(self):
        super().__init__()
        self.linear, self.bn = torch.nn.Linear(6, 3), torch.nn.BatchNorm1d(3)

    def forward(self, x):
        return {"logits": self.bn(self.linear(x)), "over": torch.relu(self.linear(x) - 5).sum(1)}


class PortedNormed(paddle.nn.Layer):
    """The same, with another count."""

    def __init__(self):
        super().__init__()
        self.linear, self.bn = paddle.nn.Linear(6, 3), paddle.nn.BatchNorm1D(3)

    def forward(self, x):
        return {"logits": self.bn(self.linear(x)), "over": 7 * paddle.nn.functional.relu(self.linear(x) - 9).mean(1)}


def test_zeros_that_are_computed_are_no_buffer_of_zeros():
    sides = (Side(framework=name, functions={"build_model": made}) for name, made in (("torch", Normed), ("paddle", PortedNormed)))
    inputs = np.linspace(-1.0, 1.0, 18, dtype="float32").reshape(3, 6)
    result = check(*sides, inputs=inputs, stages=["weights", "forward"])["forward"]
    assert result.verdict == UNDERPOWERED
    assert any("output.over is constant" in warning for warning in result.warnings)
