"""Sides that draw in a loss or in a backward pass alone: it is said, and no verdict rests on it."""

import numpy as np
import pytest

from paralign import Side, check
from paralign.model import ALIGNED, DIVERGED, UNDERPOWERED

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

pytestmark = [pytest.mark.torch, pytest.mark.paddle]

INPUTS, LABELS = np.random.RandomState(0).randn(8, 6).astype("f4"), np.arange(8) % 3


class _TorchNoise(torch.autograd.Function):
    @staticmethod
    def forward(_, x):
        return x * 1

    @staticmethod
    def backward(_, gradient):
        return gradient * (1 + 0.01 * torch.randn_like(gradient))


class _PaddleNoise(paddle.autograd.PyLayer):
    @staticmethod
    def forward(_, x):
        return x * 1

    @staticmethod
    def backward(_, gradient):
        return gradient * (1 + 0.01 * paddle.randn(gradient.shape).astype(gradient.dtype))


class _Torch(torch.nn.Module):
    def __init__(self, noisy):
        super().__init__()
        self.a, self.b, self.noisy = torch.nn.Linear(6, 16), torch.nn.Linear(16, 3), noisy

    def forward(self, x):
        hidden = torch.tanh(self.a(x))
        return self.b(_TorchNoise.apply(hidden) if self.noisy else hidden)


class _Paddle(paddle.nn.Layer):
    def __init__(self, noisy):
        super().__init__()
        self.a, self.b, self.noisy = paddle.nn.Linear(6, 16), paddle.nn.Linear(16, 3), noisy

    def forward(self, x):
        hidden = paddle.tanh(self.a(x))
        return self.b(_PaddleNoise.apply(hidden) if self.noisy else hidden)


def pytorch(noisy=False, share=0.0):
    def loss(outputs, labels):
        return torch.nn.functional.cross_entropy(torch.nn.functional.dropout(outputs, share), labels)

    def optimizer(model):
        return torch.optim.SGD(model.parameters(), lr=0.1)

    return Side(framework="torch", functions={"build_model": lambda: _Torch(noisy), "loss": loss, "build_optimizer": optimizer})


def paddled(noisy=False, share=0.0):
    def loss(outputs, labels):
        return paddle.nn.functional.cross_entropy(paddle.nn.functional.dropout(outputs, share), labels)

    def optimizer(model):
        return paddle.optimizer.SGD(parameters=model.parameters(), learning_rate=0.1)

    return Side(framework="paddle", functions={"build_model": lambda: _Paddle(noisy), "loss": loss, "build_optimizer": optimizer})


def checked(reference, candidate):
    return check(reference, candidate, inputs=INPUTS, labels=LABELS, stages=["weights", "loss", "backward"])


def test_gradients_that_both_sides_draw_are_not_judged():
    result = checked(pytorch(noisy=True), paddled(noisy=True))["backward"]
    assert result.verdict == UNDERPOWERED
    for side in ("reference", "candidate"):
        assert any(f"the {side}'s loss and gradients in eval mode are random" in doubt for doubt in result.doubts)


def test_gradients_that_one_side_draws_diverge():
    result = checked(pytorch(), paddled(noisy=True))["backward"]
    assert result.verdict == DIVERGED
    assert any("the candidate's loss and gradients in train mode are random" in doubt for doubt in result.doubts)


def test_a_loss_that_draws_is_not_judged():
    result = checked(pytorch(share=0.3), paddled(share=0.3))
    assert [result[stage].verdict for stage in ("loss", "backward")] == [UNDERPOWERED] * 2
    assert "the loss was not probed: it is random" in result["loss"].notes


def test_equal_draws_are_evidence():
    result = checked(pytorch(noisy=True, share=0.3), pytorch(noisy=True, share=0.3))
    for stage in ("loss", "backward"):
        assert result[stage].verdict == ALIGNED
        assert any("both sides drew the same numbers here" in note for note in result[stage].notes)


def test_sides_that_draw_nothing_say_nothing():
    result = checked(pytorch(), paddled())
    assert result.verdict == ALIGNED
    assert not [said for stage in result.stages for said in stage.notes + stage.warnings if "random" in said]
