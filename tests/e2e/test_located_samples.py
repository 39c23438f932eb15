"""A divergence of a large batch, where the model minds how many samples it is given: two of them do not do there."""

from __future__ import annotations

import pytest

from paralign.locate.laboratory import few_samples
from paralign.model import ALIGNED, DIVERGED

pytest.importorskip("torch")
pytest.importorskip("paddle")

pytestmark = [pytest.mark.torch, pytest.mark.paddle]

REFERENCE = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter, self.leave = nn.Linear(6, 16), nn.Linear(16, 5)

    def forward(self, x):
        x = torch.tanh(self.enter(x))
        # mind
        return self.leave(x) + 0.1


def build_model():
    torch.manual_seed(0)
    return Net()
"""

CANDIDATE = """
import paddle
from paddle import nn


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.enter, self.leave = nn.Linear(6, 16), nn.Linear(16, 5)

    def forward(self, x):
        x = paddle.tanh(self.enter(x))
        # mind
        return self.leave(x) + 0.1


def build_model():
    paddle.seed(0)
    return Net()
"""

PROJECT = """
[reference]
module = "reference.py"
framework = "torch"
[candidate]
module = "candidate.py"
framework = "paddle"
[inputs]
shape = [8, 6]
"""

#: what the programs do, in the reference's words and in the candidate's
SHAPED = ("x = x.reshape(8, 4, 4).reshape(8, 16)", "x = x.reshape([8, 4, 4]).reshape([8, 16])")
DRAWING = (
    "x = x + torch.randn(8, 16, dtype=x.dtype) if x.shape[0] > 2 else x",
    "x = x + paddle.randn([8, 16], dtype=x.dtype) if x.shape[0] > 2 else x",
)
PLAIN = ("x = x * 1.5", "x = x * 1.5")


@pytest.fixture
def checked(one_folder, standing_workers, monkeypatch):
    """Checks two programs that do something, the candidate with a fault if one is named."""
    monkeypatch.setattr(few_samples, "LARGE", 1)

    def check(act, *fault):
        theirs, ours = REFERENCE.replace("# mind", act[0]), CANDIDATE.replace("# mind", act[1])
        if fault:
            assert fault[0] in ours
            ours = ours.replace(*fault)
        return one_folder(PROJECT).check(theirs, ours)["forward"]

    return check


@pytest.mark.parametrize(("act", "few"), [(SHAPED, False), (PLAIN, True)])
def test_a_fault_is_located_whether_two_samples_can_be_run_or_not(checked, act, few):
    result = checked(act, "+ 0.1", "+ 0.2")
    assert result.verdict == DIVERGED
    assert [d.confirmed for d in result.divergences] == [True]
    assert any("located with 2 of the 8 samples" in note for note in result.notes) is few


def test_what_is_drawn_for_more_than_two_samples_alone_is_replayed(checked):
    assert checked(DRAWING).verdict == ALIGNED
    assert checked(DRAWING, "+ 0.1", "+ 0.2").verdict == DIVERGED
