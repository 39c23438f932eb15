"""What a check says of precision: where float64 itself rounds, what only the native run shows, what tiny values hide."""

from __future__ import annotations

import numpy as np
import pytest

from paralign import Side, check
from paralign.model import ALIGNED

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

pytestmark = [pytest.mark.torch, pytest.mark.paddle]

RANDOM = np.random.default_rng(0)


def both(reference, candidate, *stages, inputs=None, **functions):
    """A check of two live sides in float32 on one small batch."""
    inputs = RANDOM.standard_normal((4, 64)).astype("float32") if inputs is None else inputs
    sides = [
        Side(framework=framework, functions={"build_model": build}, **{n: f[at] for n, f in functions.items()})
        for at, (framework, build) in enumerate((("torch", reference), ("paddle", candidate)))
    ]
    return check(*sides, inputs=inputs, labels=np.arange(len(inputs)), stages=["weights", *stages])


def said(stage):
    return " ".join([*stage.notes, *stage.warnings, *(f.cause for f in stage.findings)])


# -- updates that are tiny beside the weights ------------------------------------------------------------------------------------


def tiny(size, factor=1.0):
    """A head whose gradients are scaled down, trained by both frameworks' own SGD."""

    def losses(package):
        return lambda outputs, labels: size * package.nn.functional.cross_entropy(outputs, labels)

    def torch_sgd(parameters):
        return torch.optim.SGD(parameters, lr=1e-3, momentum=0.9)

    def paddle_sgd(parameters):
        return paddle.optimizer.Momentum(learning_rate=factor * 1e-3, momentum=0.9, parameters=parameters)

    models = [
        lambda: torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)),
        lambda: paddle.nn.Sequential(paddle.nn.Linear(64, 32), paddle.nn.ReLU(), paddle.nn.Linear(32, 10)),
    ]
    return both(*models, "backward", loss=(losses(torch), losses(paddle)), optimizer=(torch_sgd, paddle_sgd))["backward"]


@pytest.mark.parametrize("size", [1e-6, 1e-9, 1e-11])
def test_a_right_port_with_tiny_updates_is_aligned(size):
    result = tiny(size)
    assert result.verdict == ALIGNED, said(result)
    assert "move alike" not in said(result)


@pytest.mark.parametrize("size", [1e-6, 1e-9])
def test_another_rate_shows_in_tiny_updates(size):
    result = tiny(size, factor=1.5)
    assert result.verdict == "diverged"
    assert "learning rate" in said(result)


def test_updates_below_the_last_bit_of_the_weights_prove_nothing():
    result = tiny(1e-16)
    assert result.verdict == "underpowered"
    assert "the update was not tested" in said(result)
