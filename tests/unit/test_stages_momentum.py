"""A momentum that reaches normalisation layers by ``partial`` is named by its line, and as what it is."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from paralign import Side, check
from paralign.model import ALIGNED, DIVERGED
from paralign.stages.backward.where_it_starts import MOMENTUM

torch = pytest.importorskip("torch")

INPUTS = np.random.RandomState(2).randn(6, 5).astype("float32")
LABELS = np.arange(6) % 3


class Net(torch.nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.inner = torch.nn.Linear(5, 4)
        self.norm = norm(4)
        self.outer = torch.nn.Linear(4, 3)

    def forward(self, x):
        return self.outer(torch.relu(self.norm(self.inner(x))))


def reference():
    norm = partial(torch.nn.BatchNorm1d, eps=1e-3, momentum=0.01)
    return Net(norm)


def copied():
    norm = partial(torch.nn.BatchNorm1d, eps=1e-3, momentum=0.99)
    return Net(norm)


def checked(candidate, rate):
    functions = {
        "loss": torch.nn.functional.cross_entropy,
        "build_optimizer": lambda m: torch.optim.SGD(m.parameters(), lr=rate, momentum=0.9),
    }
    sides = [Side(framework="torch", functions={"build_model": build, **functions}) for build in (reference, candidate)]
    return check(*sides, inputs=INPUTS, labels=LABELS, stages=["weights", "forward", "backward"])["backward"]


@pytest.mark.parametrize("rate", [1e-3, 0.1])
def test_it_is_the_first_cause_and_its_line_the_first_line(rate):
    stage = checked(copied, rate)
    assert stage.verdict == DIVERGED
    assert "momentum=0.99" in stage.divergence.candidate.code
    assert stage.findings[0].rule == MOMENTUM
    assert "a step keeps 0.01 of the old statistics here, 0.99 in the reference" in stage.findings[0].cause
    assert not stage.findings[0].proven


@pytest.mark.parametrize("rate", [1e-3, 0.1])
def test_equal_shares_are_no_cause(rate):
    stage = checked(reference, rate)
    assert stage.verdict == ALIGNED
    assert not stage.findings
