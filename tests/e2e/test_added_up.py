"""Right ports whose kernels' constants in float32 add up to more than the noise, and mistakes that are as small."""

from __future__ import annotations

import numpy as np
import pytest

from paralign.api import check
from paralign.model import ALIGNED, DIVERGED, Side

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

pytestmark = [pytest.mark.torch, pytest.mark.paddle]

STEPS = 3


class Reference(torch.nn.Module):
    """A slope of 1/6 again and again, which Paddle keeps as 0.1666667."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(16, 16) for _ in range(STEPS)])

    def forward(self, x):
        for layer in self.layers:
            x = torch.nn.functional.hardsigmoid(layer(x))
            x = x - x.mean(dim=-1, keepdim=True)
        return x


def candidate(change=None):
    class Candidate(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.layers = paddle.nn.LayerList([paddle.nn.Linear(16, 16) for _ in range(STEPS)])

        def forward(self, x):
            for number, layer in enumerate(self.layers):
                x = layer(x)
                if change is not None and number == 0:
                    x = change(x)
                x = paddle.nn.functional.hardsigmoid(x)
                x = x - x.mean(axis=-1, keepdim=True)
            return x

    return Candidate


def checked(change=None, **settings):
    torch.manual_seed(0)
    paddle.seed(0)
    x = np.random.default_rng(0).standard_normal((8, 16)).astype("float32")
    labels = np.zeros((8, 16), "float32")
    first = Side(framework="torch", functions={"build_model": Reference}, loss=lambda y, labels: ((y - labels) ** 2).mean())
    second = Side(framework="paddle", functions={"build_model": candidate(change)}, loss=lambda y, labels: ((y - labels) ** 2).mean())
    return check(first, second, inputs=x, labels=labels, stages=["weights", "forward", "loss", "backward"], **settings)


def test_constants_that_add_up_in_gradients_are_no_difference():
    backward = checked()["backward"]
    assert (backward.verdict, backward.divergences, backward.divergence) == (ALIGNED, [], None)
    assert max(p.ratio for p in backward.pairs if p.judged and p.ratio is not None) > 1
    assert any(note.startswith("rounding added up: ") for note in backward.notes)


def test_a_limit_of_the_users_own_is_kept():
    assert checked(ratio=1.0)["backward"].verdict == DIVERGED


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x * (1 + 8e-7),  # beside outputs and gradients as small as rounding is
        lambda x: x + 1e-6 * paddle.tanh(x),
        lambda x: x * (1 + 3e-6),
    ],
)
def test_a_mistake_as_small_as_added_rounding_diverges(change):
    result = checked(change)
    assert result["backward"].verdict == DIVERGED
    assert not any("rounding added up" in note for stage in result.stages for note in stage.notes)
