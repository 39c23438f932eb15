"""A ``detach`` left out far from where its value is made or used: the statement where it belongs is named first."""

from __future__ import annotations

import pytest
from tests.e2e.test_located_gradients import side

from paralign import check

torch = pytest.importorskip("torch")
pytest.importorskip("paddle")

pytestmark = [pytest.mark.torch, pytest.mark.paddle]

REFERENCE = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter, self.carry, self.mean, self.scale = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 3), nn.Linear(8, 3)

    def once(self, x, carried):
        z = torch.tanh(self.enter(x))
        if carried is not None:
            z = z + torch.tanh(self.carry(carried[0])) * carried[1].mean()
        return z, self.mean(z), nn.functional.softplus(self.scale(z)) + 0.1

    def forward(self, x):
        carried = None
        for _ in range(2):
            z, mean, scale = self.once(x, carried)
            carried = (z.detach(), scale.detach())
        return {"mean": mean, "scale": scale}


def build_model():
    torch.manual_seed(1)
    return Net()


def loss(outputs, labels):
    error = labels - outputs["mean"]
    likely = torch.log(outputs["scale"]) + 0.5 * (error / outputs["scale"]) ** 2
    variance = outputs["scale"] ** 2
    return (likely * variance.detach() ** 0.75).mean() + 0.1 * variance.mean()


def build_optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)
"""

CANDIDATE = """
import paddle
from paddle import nn


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.enter, self.carry, self.mean, self.scale = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 3), nn.Linear(8, 3)

    def one_pass(self, x, before):
        state = paddle.tanh(self.enter(x))
        if before is not None:
            state = state + paddle.tanh(self.carry(before[0])) * before[1].mean()
        return state, self.mean(state), nn.functional.softplus(self.scale(state)) + 0.1

    def forward(self, x):
        before = None
        for _ in range(2):
            state, middle, width = self.one_pass(x, before)
            before = [state.detach(), width.detach()]
        return {"mean": middle, "scale": width}


def build_model():
    return Net()


def loss(outputs, labels):
    middle, width = outputs["mean"], outputs["scale"]
    error = labels - middle
    likely = paddle.log(width) + 0.5 * paddle.square(error / width)
    weight = paddle.pow(width.detach(), 1.5)
    return paddle.mean(weight * likely) + 0.1 * paddle.square(width).mean()


def build_optimizer(model):
    return paddle.optimizer.SGD(0.1, parameters=model.parameters())
"""


def checked(folder, candidate):
    for name, source in (("reference.py", REFERENCE), ("candidate.py", candidate)):
        (folder / name).write_text(source)
    drawn = torch.Generator().manual_seed(3)
    x, labels = torch.randn(5, 6, generator=drawn).numpy(), torch.randn(5, 3, generator=drawn).numpy()
    sides = side(folder / "reference.py", "torch"), side(folder / "candidate.py", "paddle")
    result = check(*sides, inputs={"x": x}, labels=labels, stages=["forward", "backward"], out=folder / "result")
    return {stage.name: stage for stage in result.stages}


def test_the_port_is_right(tmp_path):
    assert {stage.verdict for stage in checked(tmp_path, CANDIDATE).values()} == {"aligned"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[state.detach(), width.detach()]", "[state, width]"),
        ("paddle.pow(width.detach(), 1.5)", "paddle.pow(width, 1.5)"),
    ],
    ids=["between two passes", "before a further step"],
)
def test_the_statement_where_it_belongs_is_named(tmp_path, old, new):
    assert CANDIDATE.count(old) == 1
    stages = checked(tmp_path, CANDIDATE.replace(old, new))
    assert (stages["forward"].verdict, stages["backward"].verdict) == ("aligned", "diverged")
    first = stages["backward"].divergences[0]
    file, _, line = first.candidate.source.rpartition(":")
    assert new in (tmp_path / "candidate.py").read_text().splitlines()[int(line) - 1], (file, line)
    assert first.what == "kept"
