"""Parts of a tensor that are named or joined in another order: the line that does so is named, not what takes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from paralign import Side, check

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

pytestmark = [pytest.mark.torch, pytest.mark.paddle]


class Gated(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.wide, self.back = torch.nn.Linear(6, 10), torch.nn.Linear(5, 3)

    def forward(self, x):
        value, gate = self.wide(x).chunk(2, dim=-1)
        return self.back(value * torch.nn.functional.gelu(gate))


class GatedPort(paddle.nn.Layer):
    def __init__(self, turned):
        super().__init__()
        self.wide, self.back, self.turned = paddle.nn.Linear(6, 10), paddle.nn.Linear(5, 3), turned

    def forward(self, x):
        both = self.wide(x)
        if self.turned:
            gate, value = paddle.split(both, 2, axis=-1)  # HERE: names
        else:
            value, gate = paddle.split(both, 2, axis=-1)
        return self.back(paddle.nn.functional.gelu(gate) * value)


def ring(kernel, x):
    return torch.nn.functional.conv1d(torch.nn.functional.pad(x, (2, 2), mode="circular"), kernel)


class Ring(torch.nn.Module):
    def __init__(self):
        super().__init__()
        draws = np.random.default_rng(4)
        self.near, self.far = (torch.nn.Parameter(torch.from_numpy(draws.normal(size=(3, 3, 5)).astype("float32"))) for _ in range(2))

    def forward(self, x):
        x = torch.tanh(ring(self.near, x))
        return x + torch.tanh(ring(self.far, x))


def closed_ring(kernel, x, turned):
    ends = [x[:, :, :2], x[:, :, -2:]] if turned else [x[:, :, -2:], x[:, :, :2]]
    closed = paddle.concat([ends[0], x, ends[1]], axis=2)  # HERE: joined
    return paddle.nn.functional.conv1d(closed, kernel)


class RingPort(paddle.nn.Layer):
    def __init__(self, turned):
        super().__init__()
        self.far, self.near = self.create_parameter([3, 3, 5]), self.create_parameter([3, 3, 5])
        self.turned = turned

    def forward(self, x):
        x = paddle.tanh(closed_ring(self.near, x, self.turned))
        return x + paddle.tanh(closed_ring(self.far, x, self.turned))


def checked(reference, candidate, shape):
    return check(
        Side(model=reference),
        Side(model=candidate),
        inputs=np.random.default_rng(1).normal(size=shape).astype("float32"),
        stages=["weights", "forward"],
    )["forward"]


def here(mark):
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return f"{__file__}:{next(n for n, line in enumerate(lines, 1) if line.endswith(f'# HERE: {mark}'))}"


@pytest.mark.parametrize(("model", "port", "shape"), [(Gated, GatedPort, (4, 6)), (Ring, RingPort, (2, 3, 9))])
def test_the_right_port_is_aligned(model, port, shape):
    assert checked(model(), port(turned=False), shape).verdict == "aligned"


def test_parts_that_get_each_others_names():
    stage = checked(Gated(), GatedPort(turned=True), (4, 6))
    assert stage.verdict == "diverged"
    assert stage.divergence.candidate.source == here("names")
    assert stage.divergence.rule == "parts-named"


def test_parts_that_are_joined_in_another_order_in_a_helper_called_twice():
    stage = checked(Ring(), RingPort(turned=True), (2, 3, 9))
    assert stage.verdict == "diverged"
    assert stage.divergence.candidate.source == here("joined")
