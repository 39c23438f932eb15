"""A parameter that nothing trains may be a buffer of the port: own steps, of which later ones record no buffers, agree."""

from __future__ import annotations

import pytest
from tests.e2e.test_own_batches import X, Y, cross_entropy, ported_cross_entropy, ported_sgd, ported_step, step

from paralign import Side, check
from paralign.model import ALIGNED, DIVERGED

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")


class Shifted(torch.nn.Module):
    def __init__(self, trained=False):
        super().__init__()
        self.outer = torch.nn.Linear(6, 3)
        self.shift = torch.nn.Parameter(torch.arange(6.0) / 6, requires_grad=trained)

    def forward(self, x):
        return self.outer(x + self.shift)


class PortedShifted(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.outer = paddle.nn.Linear(6, 3)
        self.register_buffer("shift", paddle.arange(6.0) / 6)

    def forward(self, x):
        return self.outer(x + self.shift)


def sgd(model):
    return torch.optim.SGD([each for each in model.parameters() if each.requires_grad], lr=0.1)


@pytest.mark.parametrize(("trained", "verdict"), [(False, ALIGNED), (True, DIVERGED)])
def test_a_parameter_that_is_a_buffer_of_the_port_has_to_be_frozen(trained, verdict):
    ours = {"build_model": PortedShifted, "build_optimizer": ported_sgd, "train_step": ported_step, "loss": ported_cross_entropy}
    theirs = {"build_model": lambda: Shifted(trained), "build_optimizer": sgd, "train_step": step, "loss": cross_entropy}
    sides = Side(framework="torch", functions=theirs), Side(framework="paddle", functions=ours)
    backward = check(*sides, inputs=X[:4], labels=Y[:4], stages=["backward"])["backward"]
    assert backward.verdict == verdict
    assert any(pair.key.startswith("own change_2") for pair in backward.pairs)
    assert any("own change_2 shift" in pair.key and pair.verdict == DIVERGED for pair in backward.pairs) == trained
