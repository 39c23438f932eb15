"""A layer of the user's own that keeps running statistics: a wrong share of the old ones is named where they are computed."""

from __future__ import annotations

import textwrap

import pytest

from paralign.api import check_project
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

SETTINGS = """
    out = "result"
    stages = ["weights", "backward"]
    [reference]
    module = "reference.py"
    framework = "torch"
    [candidate]
    module = "candidate.py"
    framework = "paddle"
"""


def backward(folder, candidate):
    for name, text in {"reference.py": REFERENCE, "candidate.py": candidate, "paralign.toml": SETTINGS}.items():
        (folder / name).write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")
    return check_project(folder)[0]["backward"]


def lines(text, mark):
    return [n for n, line in enumerate(textwrap.dedent(text).lstrip("\n").splitlines(), 1) if mark in line]


def test_a_wrong_share_is_named_where_the_statistics_are_computed(tmp_path):
    result = backward(tmp_path, CANDIDATE.replace("keep=0.95", "keep=0.05"))
    assert result.verdict == DIVERGED
    found = result.divergence
    assert int(found.candidate.source.rpartition(":")[2]) in [n + d for n in lines(CANDIDATE, "UPDATE") for d in (-1, 0)]
    assert "reference.py" in found.reference.source
    assert "mean.add_" in found.reference.code


def test_the_right_share_is_aligned(tmp_path):
    assert backward(tmp_path, CANDIDATE).verdict == ALIGNED
