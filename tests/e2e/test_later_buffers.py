"""What layers keep and only a later step shows: a pointer into a queue that has to start over when it reaches the end."""

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

    class Queue(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = torch.nn.Linear(6, 3)
            self.register_buffer("queue", torch.ones(16, 3))
            self.register_buffer("place", torch.zeros(1, dtype=torch.long))

        def forward(self, x):
            keys = self.encoder(x)
            outputs = keys @ self.queue.clone().T
            if self.training:
                with torch.no_grad():
                    place = int(self.place)
                    self.queue[place : place + 8] = keys
                    self.place[0] = (place + 8) % 16
            return outputs

    def build_model():
        return Queue()

    def inputs():
        return np.random.default_rng(0).standard_normal((8, 6)).astype("float32") + 1

    def labels():
        return np.random.default_rng(1).standard_normal((8, 16)).astype("float32")

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

    class Queue(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.encoder = paddle.nn.Linear(6, 3)
            self.register_buffer("queue", paddle.ones([16, 3]))
            self.register_buffer("place", paddle.zeros([1], dtype="int64"))

        def forward(self, x):
            keys = self.encoder(x)
            outputs = keys @ self.queue.clone().T
            if self.training:
                with paddle.no_grad():
                    place = self.place.item()
                    self.queue[place : place + 8] = keys
                    self.place[0] = (place + 8) % 16
            return outputs

    def build_model():
        return Queue()  # LAYER

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


def test_a_pointer_that_does_not_start_over_diverges(tmp_path):
    result = checked(tmp_path, REFERENCE, CANDIDATE.replace("(place + 8) % 16", "min(place + 8, 8)"), "backward")
    assert result.verdict == DIVERGED
    wrong = [pair.key for pair in result.wrong]
    assert wrong[0] == "buffer_1 place (train)"
    assert "own buffer_1 place" in wrong
    assert int(result.divergence.candidate.source.rpartition(":")[2]) == line_of(CANDIDATE, "LAYER")


def test_a_pointer_that_starts_over_is_aligned(tmp_path):
    result = checked(tmp_path, REFERENCE, CANDIDATE, "backward")
    assert result.verdict == ALIGNED
    compared = [pair.key for pair in result.judged]
    assert {f"buffer_{step} place (train)" for step in range(3)} <= set(compared)
    assert {f"own buffer_{step} place" for step in range(3)} <= set(compared)
    assert "buffer_1 queue (train)" not in compared
