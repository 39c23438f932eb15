"""An output that is one number throughout: judged where parameters alone make it, too weak where nothing does."""

from __future__ import annotations

import pytest

from paralign.api import check_project
from paralign.model import ALIGNED, DIVERGED, UNDERPOWERED

PROJECT = 'stages = ["weights", "forward"]\n[reference]\nframework = "torch"\n[candidate]\nframework = "torch"\n[inputs]\nshape = [5, 3]\n'
MODEL = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(3, 4)
        self.tail = nn.Parameter(torch.tensor({start}))

    def forward(self, x):
        return {{"mean": self.line(x), "tail": {tail}}}

def build_model():
    torch.manual_seed(3)
    return Net()
"""
LEARNED = "(2 + nn.functional.softplus(self.tail)).expand(len(x))"

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.usefixtures("standing_workers")]


def forward(folder, reference, candidate, start=1.5):
    (folder / "paralign.toml").write_text(PROJECT)
    (folder / "reference.py").write_text(MODEL.format(tail=reference, start=start))
    (folder / "candidate.py").write_text(MODEL.format(tail=candidate, start=start))
    return check_project(folder)[0].stages[1]


@pytest.mark.parametrize("start", [1.5, 0.0])
def test_what_a_parameter_makes_is_moved_with_it(tmp_path, start):
    stage = forward(
        tmp_path, LEARNED, LEARNED.replace("2 + nn.functional.softplus(self.tail)", "torch.log(1 + self.tail.exp()) + 2"), start
    )
    assert stage.verdict == ALIGNED
    assert any("output.tail is constant: with the parameters of one number moved" in note for note in stage.notes)
    assert stage.warnings == []


def test_a_number_written_in_its_place_is_found(tmp_path):
    import math

    written = f"torch.full((len(x),), {2 + math.log(1 + math.exp(1.5))!r}, dtype=x.dtype)"
    stage = forward(tmp_path, LEARNED, written)
    assert stage.verdict == DIVERGED
    assert any("parameters of one number moved by noise" in note for note in stage.notes)


@pytest.mark.parametrize("tail", ["torch.full((len(x),), 3.25, dtype=x.dtype)", "(self.tail * 0 + 3.25).expand(len(x))"])
def test_what_nothing_moves_stays_too_weak(tmp_path, tail):
    stage = forward(tmp_path, tail, tail)
    assert stage.verdict == UNDERPOWERED
    assert any("output.tail is constant: it can agree" in warning for warning in stage.warnings)


SATURATED = "(self.tail * torch.clamp(self.line(x).sum(-1) + 20, max=6.0))"


@pytest.mark.parametrize(
    ("reference", "candidate"),
    [
        (SATURATED, SATURATED.replace("self.line(x)", "3 * torch.tanh(self.line(x.flip(-1)))")),
        ("(self.tail * 6.0).expand(len(x))", SATURATED),
        (SATURATED, "(self.tail * 6.0).expand(len(x))"),
    ],
)
def test_what_is_constant_by_chance_stays_too_weak(tmp_path, reference, candidate):
    assert forward(tmp_path, reference, candidate).verdict == UNDERPOWERED
