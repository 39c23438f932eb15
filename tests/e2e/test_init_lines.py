"""The line that writes the number of a wrong initialisation is named, in the model or in a helper far from the layer."""

from __future__ import annotations

import pytest

from paralign.api import check_project
from paralign.model import ALIGNED, DIVERGED

pytest.importorskip("torch")
pytest.importorskip("paddle")

pytestmark = [pytest.mark.torch, pytest.mark.paddle, pytest.mark.usefixtures("standing_workers")]

REFERENCE = """
import math
import torch
from torch import nn


def fill(module, std=0.02):
    if isinstance(module, nn.Linear):
        nn.init.trunc_normal_(module.weight, std=std, a=-2 * std, b=2 * std)
        nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, 0.0, 0.05)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(40, 32)
        self.body = nn.Linear(32, 48)
        self.head = nn.Linear(48, 10)
        self.scale = nn.Parameter(torch.full((48,), 0.1))
        self.gate = nn.Parameter(torch.empty(64, 48))
        self.window = nn.Parameter(torch.hann_window(48))
        self.apply(fill)
        nn.init.constant_(self.head.bias, -math.log((1 - 0.01) / 0.01))
        bound = math.sqrt(3.0 / 48)
        nn.init.uniform_(self.gate, -bound, bound)

    def forward(self, x):
        hidden = self.body(self.table(x)) * self.scale * self.window
        return self.head(hidden) + (hidden @ self.gate.T).sum(-1, keepdim=True)


def build_model():
    return Net()
"""

HELPERS = """
import numpy as np
from paddle import nn
from paralign import init


def normal_(tensor, std):
    return init.normal_(tensor, 0.0, std)


def fill(module, std=0.02):
    if isinstance(module, nn.Linear):
        init.trunc_normal_(module.weight, std=std, a=-2 * std, b=2 * std)
        init.zeros_(module.bias)
    elif isinstance(module, nn.Embedding):
        normal_(module.weight, 0.05)


def bound_of(fan):
    return (3.0 / fan) ** 0.5


def window_of(size):
    turn = np.arange(size) / size
    return 0.5 - 0.5 * np.cos(2 * np.pi * turn)
"""

CANDIDATE = """
import math
import paddle
from paddle import nn
from paralign import init
from helpers import bound_of, fill, window_of

PRIOR = 0.01


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(40, 32)
        self.body = nn.Linear(32, 48)
        self.head = nn.Linear(48, 10)
        self.scale = self.create_parameter([48], default_initializer=nn.initializer.Constant(0.1))
        self.gate = self.create_parameter([64, 48])
        window = nn.initializer.Assign(window_of(48).astype("float32"))
        self.window = self.create_parameter([48], default_initializer=window)
        self.apply(fill)
        init.constant_(self.head.bias, -math.log((1 - PRIOR) / PRIOR))
        bound = bound_of(48)
        init.uniform_(self.gate, -bound, bound)

    def forward(self, x):
        hidden = self.body(self.table(x)) * self.scale * self.window
        return self.head(hidden) + paddle.matmul(hidden, self.gate, transpose_y=True).sum(-1, keepdim=True)


def build_model():
    return Net()
"""

PROJECT = """
stages = ["init"]
[reference]
framework = "torch"
module = "reference.py"
[candidate]
framework = "paddle"
module = "candidate.py"
"""

#: name -> file, what it has, what it has instead, what stands in the line to be named
FAULTS = {
    "a helper's default": ("helpers", "std=0.02)", "std=0.03)", "std=0.03"),
    "a number in a helper": ("helpers", "normal_(module.weight, 0.05)", "normal_(module.weight, 0.08)", "normal_(module.weight, 0.08)"),
    "a bound that a helper computes": ("helpers", "3.0 / fan", "6.0 / fan", "6.0 / fan"),
    "a constant of the module": ("candidate", "PRIOR = 0.01", "PRIOR = 0.1", "PRIOR = 0.1"),
    "an initializer's argument": ("candidate", "Constant(0.1)", "Constant(0.3)", "Constant(0.3)"),
    "a formula of a table": ("helpers", "np.arange(size) / size", "np.arange(size) / (size - 1)", "turn = np.arange(size) / (size - 1)"),
    "the size of a table": ("candidate", "window_of(48)", "window_of(50)[:48]", "window_of(50)[:48]"),
    "an argument where the helper is used": ("candidate", "bound_of(48)", "bound_of(64)", "bound_of(64)"),
}


def checked(tmp_path, **sources):
    for name, text in {"reference": REFERENCE, "candidate": CANDIDATE, "helpers": HELPERS, **sources}.items():
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "paralign.toml").write_text(PROJECT)
    return check_project(tmp_path)[0]["init"]


def test_a_right_initialisation_is_aligned(tmp_path):
    result = checked(tmp_path)
    assert result.verdict == ALIGNED, [p.notes for p in result.pairs if p.verdict != ALIGNED]


@pytest.mark.parametrize("fault", FAULTS)
def test_the_line_that_writes_the_wrong_number_is_named(tmp_path, fault):
    file, right, wrong, line = FAULTS[fault]
    source = {"candidate": CANDIDATE, "helpers": HELPERS}[file]
    assert right in source
    result = checked(tmp_path, **{file: source.replace(right, wrong, 1)})
    assert result.verdict == DIVERGED
    found = result.divergence.candidate
    assert (line in (found.code or ""), f"{file}.py" in (found.source or "")) == (True, True), (found, result.divergence.notes)


def test_tables_with_the_same_extremes_are_told_apart_by_their_means(tmp_path):
    result = checked(tmp_path, helpers=HELPERS.replace("np.pi * turn)", "np.pi * turn) ** 3"))
    (cause,) = [finding.cause for finding in result.findings]
    assert "from 0 to 1, mean 0.5, std 0.279509 in the candidate" in cause
    assert "from 0 to 1, mean 0.5, std 0.353553 in the reference" in cause
