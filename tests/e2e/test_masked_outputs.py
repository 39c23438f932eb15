"""Outputs with scores of -1e6 where a mask stands: what the other scores are is judged beside their own size."""

from __future__ import annotations

import numpy as np
import pytest

from paralign import Side, check

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

pytestmark = [pytest.mark.torch, pytest.mark.paddle]

MASK = np.triu(np.ones((6, 6), bool), 1)


class Net(torch.nn.Module):
    def __init__(self, masked=-1e6):
        super().__init__()
        self.masked = masked
        torch.manual_seed(2)
        self.ask, self.key = torch.nn.Linear(5, 4), torch.nn.Linear(5, 4)

    def forward(self, x):
        scores = self.ask(x) @ self.key(x).transpose(1, 2)
        return scores.masked_fill(torch.from_numpy(MASK), self.masked)


class Port(paddle.nn.Layer):
    def __init__(self, factor, added):
        super().__init__()
        self.key, self.ask = paddle.nn.Linear(5, 4), paddle.nn.Linear(5, 4)
        self.factor, self.added = factor, added

    def forward(self, x):
        scores = paddle.matmul(self.ask(x), self.key(x), transpose_y=True) * self.factor
        mask = paddle.to_tensor(MASK)
        if self.added:
            return scores - 1e4 * mask.astype(scores.dtype)
        return paddle.where(mask, paddle.full_like(scores, -1e6), scores)


@pytest.mark.parametrize("factor", [1.0, 1.0003])
def test_a_small_mistake_beside_them_is_seen(factor):
    result = check(
        Side(model=Net()),
        Side(model=Port(factor, added=False)),
        inputs=np.random.default_rng(1).normal(size=(3, 6, 5)).astype("float32"),
        stages=["weights", "forward"],
    )
    assert result["forward"].verdict == ("aligned" if factor == 1.0 else "diverged")
    (pair,) = result["forward"].pairs
    assert any("45 outsized values of 108" in note for note in pair.notes)
    assert pair.error == pytest.approx(abs(factor - 1), abs=1e-6)


def test_a_mask_that_is_added_differs_where_it_stands():
    result = check(
        Side(model=Net(masked=-1e4)),
        Side(model=Port(1.0, added=True)),
        inputs=np.random.default_rng(1).normal(size=(3, 6, 5)).astype("float32"),
        stages=["weights", "forward"],
    )
    assert result["forward"].verdict == "diverged"
