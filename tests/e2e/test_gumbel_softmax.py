"""A softmax whose kernel adds Gumbel noise by itself draws what the reference drew."""

from types import SimpleNamespace

import numpy as np
import pytest

from paralign import Side, check
from paralign.model import ALIGNED, DIVERGED
from paralign.worker.draws.drawn_values import drawn, replayed

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

pytestmark = [pytest.mark.torch, pytest.mark.paddle]


class _Torch(torch.nn.Module):
    def __init__(self, hard, temperature):
        super().__init__()
        self.a, self.b = torch.nn.Linear(6, 16), torch.nn.Linear(16, 3)
        self.hard, self.temperature = hard, temperature

    def forward(self, x):
        return self.b(torch.nn.functional.gumbel_softmax(self.a(x), tau=self.temperature, hard=self.hard))


class _Paddle(paddle.nn.Layer):
    def __init__(self, hard, temperature):
        super().__init__()
        self.a, self.b = paddle.nn.Linear(6, 16), paddle.nn.Linear(16, 3)
        self.hard, self.temperature = hard, temperature

    def forward(self, x):
        return self.b(paddle.nn.functional.gumbel_softmax(self.a(x), temperature=self.temperature, hard=self.hard))


def checked(temperature=1.0, other=None, *, hard=False, turned=False):
    builds = {"torch": lambda: _Torch(hard, temperature), "paddle": lambda: _Paddle(hard, temperature if other is None else other)}
    losses = {"torch": torch.nn.functional.cross_entropy, "paddle": paddle.nn.functional.cross_entropy}
    sides = [Side(framework=name, functions={"build_model": builds[name], "loss": losses[name]}) for name in builds]
    inputs = np.random.RandomState(0).randn(8, 6).astype("f4")
    first, second = sides[::-1] if turned else sides
    return check(first, second, inputs=inputs, labels=np.arange(8) % 3, stages=["weights", "forward", "backward"])


@pytest.mark.parametrize("turned", [False, True])
def test_a_gumbel_softmax_is_compared_with_the_references_draw(turned):
    """Where Paddle is the reference, what its kernel drew is read off the result."""
    result = checked(turned=turned)
    assert [result[stage].verdict for stage in ("forward", "backward")] == [ALIGNED] * 2
    assert any("1 drew what the reference drew" in note for note in result["forward"].notes)


@pytest.mark.parametrize("hard", [False, True])
def test_a_replay_does_not_hide_that_paddles_gradient_is_another(hard):
    """Paddle's gradient lacks the share of the temperature, and is zero for a hard result: the forward pass agrees, training does not."""
    result = checked(0.7, hard=hard)
    assert [result[stage].verdict for stage in ("forward", "backward")] == [ALIGNED, DIVERGED]


def test_another_temperature_is_found():
    result = checked(0.7, 1.0)
    assert result["forward"].verdict == DIVERGED
    assert "gumbel_softmax" in result["forward"].divergence.candidate.op


def test_the_replayed_gradient_is_that_of_paddles_kernel():
    logits = paddle.to_tensor(np.random.RandomState(0).randn(4, 5), stop_gradient=False)
    factor = paddle.to_tensor(np.random.RandomState(1).randn(4, 5))
    made = paddle.nn.functional.gumbel_softmax(logits, temperature=0.5)
    (own,) = paddle.grad((made * factor).sum(), logits)
    operation = SimpleNamespace(op="gumbel_softmax", random=True, inputs=[logits], outputs=[made], attrs={"temperature": 0.5})
    (again,) = replayed(operation, "exponential", drawn(operation).value)
    np.testing.assert_allclose(again.numpy(), made.numpy(), rtol=1e-9)
    np.testing.assert_allclose(paddle.grad((again * factor).sum(), logits)[0].numpy(), own.numpy(), rtol=1e-7, atol=1e-12)
