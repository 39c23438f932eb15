"""A layer of the user's own that keeps running statistics: a wrong share of the old ones is named where they are computed."""

from __future__ import annotations

import pytest
from tests.e2e.written_projects import checked, line_of

from paralign.model import ALIGNED, DIVERGED

pytest.importorskip("torch")
pytest.importorskip("paddle")

pytestmark = [pytest.mark.torch, pytest.mark.paddle]

REFERENCE = """
    import numpy as np
    import torch

    class Standardize(torch.nn.Module):
        def __init__(self, rate=0.05):
            super().__init__()
            self.rate = rate
            self.register_buffer("mean", torch.zeros(6))

        def forward(self, x):
            if self.training:
                mean = x.mean(0)
                with torch.no_grad():
                    self.mean.add_(self.rate * (mean - self.mean))
                return x - mean
            return x - self.mean

    def build_model():
        return torch.nn.Sequential(Standardize(), torch.nn.Linear(6, 3))

    def inputs():
        return np.random.default_rng(0).standard_normal((8, 6)).astype("float32") + 1

    def labels():
        return np.random.default_rng(1).standard_normal((8, 3)).astype("float32")

    def loss(outputs, labels):
        return ((outputs - labels) ** 2).mean()

    def build_optimizer(model):
        return torch.optim.SGD(model.parameters(), lr=0.1)

    def train_step(model, optimizer, batch):
        value = loss(model(batch[0]), batch[1])
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        return {"loss": value.detach()}
"""

CANDIDATE = """
    import paddle

    class Running(paddle.nn.Layer):
        def __init__(self, keep=0.95):
            super().__init__()
            self.keep = keep
            self.register_buffer("mean", paddle.zeros([6]))

        def forward(self, x):
            if not self.training:
                return x - self.mean
            mean = x.mean(0)
            with paddle.no_grad():
                old = self.keep * self.mean
                self.mean.set_value(old + (1 - self.keep) * mean)  # UPDATE
            return x - mean

    def build_model():
        return paddle.nn.Sequential(Running(), paddle.nn.Linear(6, 3))  # LAYER

    def loss(outputs, labels):
        return ((outputs - labels) ** 2).mean()

    def build_optimizer(model):
        return paddle.optimizer.SGD(0.1, parameters=model.parameters())

    def train_step(model, optimizer, batch):
        value = loss(model(batch[0]), batch[1])
        value.backward()
        optimizer.step()
        optimizer.clear_grad()
        return {"loss": value.detach()}
"""


def test_a_wrong_share_is_named_where_the_statistics_are_computed(tmp_path):
    result = checked(tmp_path, REFERENCE, CANDIDATE.replace("keep=0.95", "keep=0.05"), "backward")
    assert result.verdict == DIVERGED
    found = result.divergence
    assert int(found.candidate.source.rpartition(":")[2]) in (line_of(CANDIDATE, "UPDATE") - 1, line_of(CANDIDATE, "UPDATE"))
    assert "reference.py" in found.reference.source
    assert "mean.add_" in found.reference.code


def test_the_right_share_is_aligned(tmp_path):
    assert checked(tmp_path, REFERENCE, CANDIDATE, "backward").verdict == ALIGNED
