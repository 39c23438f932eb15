"""A layer or a helper that is right, and a line that takes it wrongly: that line is named, not where the layer or the helper stands."""

from __future__ import annotations

import pytest

from paralign.api import check_project
from paralign.model import ALIGNED

PROJECT = 'stages = ["weights", "forward"]\n[reference]\nframework = "{reference}"\n[candidate]\nframework = "{candidate}"\n'
GIVEN = """
import numpy as np

def inputs():
    return np.random.default_rng(0).standard_normal((3, 6, 8)).astype("float32"), np.array([6, 2, 4])
"""

TORCH = """
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.{layer}(8, 5, batch_first=True, bidirectional=True)
        self.head = nn.Linear(10, 4)

    def forward(self, x, lengths):
{lines}
        keep = (torch.arange(x.shape[1]) < lengths[:, None]).unsqueeze(-1).to(x.dtype)
        return self.head(out) * keep

def build_model():
    torch.manual_seed(3)
    return Net()
"""
PACKED = """        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        out = pad_packed_sequence(self.rnn(packed)[0], batch_first=True, total_length=x.shape[1])[0]"""
PADDED = "        out, _ = self.rnn(x)  # HERE"

PADDLE = """
import paddle
from paddle import nn

class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.rnn = nn.{layer}(8, 5, direction="bidirect")
        self.head = nn.Linear(10, 4)

    def forward(self, x, lengths):
        out, _ = self.rnn(x{lengths})  # HERE
        keep = (paddle.arange(x.shape[1]) < lengths.unsqueeze(1)).unsqueeze(-1).astype(x.dtype)
        return self.head(out) * keep

def build_model():
    paddle.seed(3)
    return Net()
"""


def checked(folder, reference, candidate, frameworks, given=GIVEN):
    (folder / "paralign.toml").write_text(PROJECT.format(reference=frameworks[0], candidate=frameworks[1]))
    (folder / "reference.py").write_text(reference + given)
    (folder / "candidate.py").write_text(candidate)
    result, _ = check_project(folder)
    return result


def marked(folder):
    lines = (folder / "candidate.py").read_text().splitlines()
    return f"{folder / 'candidate.py'}:{next(number for number, line in enumerate(lines, 1) if '# HERE' in line)}"


def first(result):
    return result.stages[1].divergence


@pytest.mark.torch
@pytest.mark.paddle
@pytest.mark.slow
@pytest.mark.usefixtures("standing_workers")
@pytest.mark.parametrize("layer", ["GRU", "LSTM"])
def test_a_recurrent_layer_without_lengths_is_wrong_where_it_is_called(tmp_path, layer):
    reference = TORCH.format(layer=layer, lines=PACKED)
    right = checked(tmp_path, reference, PADDLE.format(layer=layer, lengths=", sequence_length=lengths"), ("torch", "paddle"))
    assert right.verdict == ALIGNED
    wrong = checked(tmp_path, reference, PADDLE.format(layer=layer, lengths=""), ("torch", "paddle"))
    assert first(wrong).candidate.source == marked(tmp_path)
    assert any("is given the length of each sequence" in note for note in first(wrong).notes)


@pytest.mark.torch
@pytest.mark.paddle
@pytest.mark.slow
@pytest.mark.usefixtures("standing_workers")
def test_so_it_is_the_other_way_round(tmp_path):
    reference = PADDLE.format(layer="GRU", lengths=", sequence_length=lengths")
    wrong = checked(tmp_path, reference, TORCH.format(layer="GRU", lines=PADDED), ("paddle", "torch"))
    assert first(wrong).candidate.source == marked(tmp_path)


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.usefixtures("standing_workers")
def test_a_layer_of_another_construction_is_named_where_it_is_built(tmp_path):
    text = TORCH.format(layer="GRU", lines=PADDED)
    wrong = text.replace("self.rnn = nn.GRU(8, 5,", "self.norm = nn.LayerNorm(8, eps=0.1)  # THERE\n        self.rnn = nn.GRU(8, 5,")
    wrong = wrong.replace("# HERE", "").replace("# THERE", "# HERE").replace("self.rnn(x)", "self.rnn(self.norm(x))")
    reference = wrong.replace("eps=0.1", "eps=1e-5")
    found = checked(tmp_path, reference, wrong, ("torch", "torch"))
    assert first(found).candidate.source == marked(tmp_path)


HELPED = """
import torch
from math import prod
from torch import nn

def fan_in(weight):
    return prod(weight.shape[1:]){helper}

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(5, 3, 4))
        self.gain = nn.Parameter(torch.rand(5, 1, 1) + 0.5)

    def forward(self, x):
        w = self.weight
        off = w - w.mean((1, 2), keepdim=True)
        var = off.square().sum((1, 2), keepdim=True) / {divisor}
        w = off / torch.sqrt(var * {factor}) * self.gain
        return x.flatten(1) @ w.flatten(1).T

def build_model():
    torch.manual_seed(3)
    return Net()
"""
SMALL = "import numpy as np\n\ndef inputs():\n    return np.random.default_rng(0).standard_normal((6, 3, 4)).astype('float32')\n"


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.usefixtures("standing_workers")
@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"helper": "", "divisor": "fan_in(w)  # HERE", "factor": "fan_in(w)"}, "the use"),
        ({"helper": " + 1  # HERE", "divisor": "(fan_in(w) - 1)", "factor": "fan_in(w)"}, "the helper"),
    ],
    ids=["a right number at a wrong place", "a wrong number"],
)
def test_a_helper_whose_number_others_take_rightly_is_right(tmp_path, changes, line):
    reference = HELPED.format(helper="", divisor="(w[0].numel() - 1)", factor="w[0].numel()")
    found = checked(tmp_path, reference, HELPED.format(**changes), ("torch", "torch"), SMALL)
    assert first(found).candidate.source == marked(tmp_path), line
