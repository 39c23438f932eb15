"""Layers that are frozen, in each framework's own way: the same thing, unless only one side does it."""

from __future__ import annotations

import numpy as np
import pytest

from paralign.api import check
from paralign.model import ALIGNED, DIVERGED, Side

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")
pytestmark = [pytest.mark.torch, pytest.mark.paddle]

X = np.random.RandomState(0).randn(8, 6).astype("float32")
LABELS = np.random.RandomState(1).randn(8, 2).astype("float32")


def squares(outputs, labels):
    return ((outputs - labels) ** 2).mean()


def reference(frozen):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2))
    for parameter in model[0].parameters():
        parameter.requires_grad_(not frozen)
    return Side(
        "torch", model, loss=squares, optimizer=lambda parameters: torch.optim.SGD([p for p in parameters if p.requires_grad], lr=0.1)
    )


def candidate(rate):
    given = {} if rate is None else {"weight_attr": paddle.ParamAttr(learning_rate=rate), "bias_attr": paddle.ParamAttr(learning_rate=rate)}
    model = paddle.nn.Sequential(paddle.nn.Linear(6, 5, **given), paddle.nn.ReLU(), paddle.nn.Linear(5, 2))
    return Side("paddle", model, loss=squares, optimizer=lambda parameters: paddle.optimizer.SGD(0.1, parameters=parameters))


@pytest.mark.parametrize(("frozen", "rate", "verdict"), [(True, 0.0, ALIGNED), (True, None, DIVERGED), (False, 0.0, DIVERGED)])
def test_a_rate_of_zero_freezes(frozen, rate, verdict):
    result = check(reference(frozen), candidate(rate), inputs=X, labels=LABELS, stages=["backward"])["backward"]
    assert result.verdict == verdict, [(p.key, p.verdict, p.notes) for p in result.pairs if p.verdict != ALIGNED]
