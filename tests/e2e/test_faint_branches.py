"""Branches behind tiny weights, as new residual blocks have them: what is wrong inside hardly shows in the outputs."""

from __future__ import annotations

import numpy as np
import pytest

from paralign.api import check
from paralign.locate.laboratory.watched import Watched
from paralign.model import ALIGNED, DIVERGED, UNDERPOWERED, Side

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

pytestmark = [pytest.mark.torch, pytest.mark.paddle]

gelu = torch.nn.functional.gelu


def reference(blocks, gamma):
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.LayerNorm(16)
            self.first, self.second = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)
            self.gamma = torch.nn.Parameter(torch.full((16,), gamma))

        def forward(self, x):
            h = gelu(self.first(self.norm(x)))
            return x + self.gamma * self.second(h)

    return lambda: torch.nn.Sequential(*[Block() for _ in range(blocks)], torch.nn.Linear(16, 5))


def candidate(activations):
    class Block(paddle.nn.Layer):
        def __init__(self, activation):
            super().__init__()
            self.norm = paddle.nn.LayerNorm(16)
            self.first, self.second = paddle.nn.Linear(16, 32), paddle.nn.Linear(32, 16)
            self.gamma, self.activation = self.create_parameter([16]), activation

        def forward(self, x):
            h = self.activation(self.first(self.norm(x)))
            return x + self.gamma * self.second(h)

    return lambda: paddle.nn.Sequential(*map(Block, activations), paddle.nn.Linear(16, 5))


def checked(*activations, gamma=1e-6):
    torch.manual_seed(0)
    paddle.seed(0)
    x = np.random.default_rng(0).standard_normal((8, 16)).astype("float32")
    first = Side(framework="torch", functions={"build_model": reference(len(activations), gamma)})
    second = Side(framework="paddle", functions={"build_model": candidate(activations)})
    return check(first, second, inputs=x, stages=["weights", "forward"])["forward"]


WRONG = {
    "left out": lambda h: h,
    "another one": paddle.nn.functional.relu,
    "one more": lambda h: paddle.tanh(paddle.nn.functional.gelu(h)),
    "in another order": lambda h: paddle.nn.functional.gelu(h).flip(-1),
}


@pytest.mark.parametrize("gamma", [3e-7, 1e-8])
@pytest.mark.parametrize("activation", WRONG.values(), ids=WRONG)
def test_a_wrong_step_behind_tiny_weights_diverges(activation, gamma):
    found = checked(activation, gamma=gamma)
    assert found.verdict == DIVERGED
    assert found.divergence.confirmed
    assert found.worst.ratio < 1.0  # the outputs agree within float32


def test_the_same_in_every_block_is_one_fault():
    found = checked(*[lambda h: h] * 6)
    assert found.verdict == DIVERGED
    assert [divergence.confirmed for divergence in found.divergences] == [True]


def test_more_lines_than_are_looked_for_are_not_said_to_be_all():
    others = [
        lambda h: h * 0.5,
        lambda h: paddle.tanh(h) * 0.7,
        lambda h: paddle.nn.functional.relu(h) * 0.9,
        lambda h: paddle.sin(h) * 1.1,
        lambda h: paddle.nn.functional.sigmoid(h) * 1.2,
        lambda h: paddle.nn.functional.softplus(h) * 0.8,
    ]
    found = checked(*others, gamma=1e-7)
    assert found.verdict == UNDERPOWERED
    assert not any(divergence.confirmed for divergence in found.divergences)
    assert any("what follows hardly uses it" in warning for warning in found.warnings)


RIGHT = {
    "the same": paddle.nn.functional.gelu,
    "by hand, with a rounded constant": lambda h: 0.5 * h * (1 + paddle.erf(h / 1.4142135)),
    "by hand, multiplied in another order": lambda h: h * (0.5 * (1 + paddle.erf(h * 0.70710678))),
}


@pytest.mark.parametrize("gamma", [1.0, 1e-3, 1e-6])
@pytest.mark.parametrize("activation", RIGHT.values(), ids=RIGHT)
def test_rounded_constants_are_no_fault(activation, gamma):
    found = checked(activation, activation, gamma=gamma)
    assert found.verdict == ALIGNED
    assert found.divergences == []


class Padded(torch.nn.Module):
    """A row is dropped in the end, the only one with negative numbers."""

    def __init__(self):
        super().__init__()
        self.first, self.head = torch.nn.Linear(16, 16), torch.nn.Linear(16, 5)

    def forward(self, x):
        h = torch.relu(self.first(x) + 9.0) * 1.4142135623730951
        return self.head(h[:, :7].mean(1))


class PaddedToo(paddle.nn.Layer):
    def __init__(self, activation, factor):
        super().__init__()
        self.first, self.head = paddle.nn.Linear(16, 16), paddle.nn.Linear(16, 5)
        self.activation, self.factor = activation, factor

    def forward(self, x):
        h = self.activation(self.first(x) + 9.0) * self.factor
        return self.head(h[:, :7].mean(1))


def padded(activation, factor):
    torch.manual_seed(0)
    x = np.random.default_rng(0).standard_normal((4, 8, 16)).astype("float32")
    x[:, 7] *= 100
    first = Side(framework="torch", functions={"build_model": Padded})
    second = Side(framework="paddle", functions={"build_model": lambda: PaddedToo(activation, factor)})
    return check(first, second, inputs=x, stages=["weights", "forward"])["forward"]


HARMLESS = {
    "the same": paddle.nn.functional.relu,
    "another step": lambda h: paddle.nn.functional.leaky_relu(h, 0.3),
    "left out": lambda h: h,
    "the size": paddle.abs,
}


@pytest.mark.parametrize("activation", HARMLESS.values(), ids=HARMLESS)
def test_a_harmless_value_beside_a_rounded_constant_is_no_fault(activation):
    found = padded(activation, 1.41421356)
    assert found.verdict == ALIGNED, found.divergences
    assert found.divergences == []


@pytest.mark.parametrize("activation", WRONG.values(), ids=WRONG)
def test_a_wrong_step_is_found_behind_a_rounded_constant(activation):
    found = checked(RIGHT["by hand, with a rounded constant"], activation)
    assert found.verdict == DIVERGED
    assert [divergence.confirmed for divergence in found.divergences] == [True]


def test_a_rounded_constant_takes_few_runs(monkeypatch):
    runs, run = [], Watched.run
    monkeypatch.setattr(Watched, "run", lambda *given: runs.append(1) or run(*given))
    assert checked(RIGHT["by hand, with a rounded constant"], gamma=1.0).verdict == ALIGNED
    assert 0 < len(runs) <= 4  # a gross error in its place, which shows, and the right value
