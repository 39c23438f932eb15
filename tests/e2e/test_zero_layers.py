"""A port whose last layer starts at zero, and whose patches are cut by hand with channels last."""

from __future__ import annotations

import json

import pytest

from paralign.cli import main

pytest.importorskip("torch")
pytest.importorskip("paddle")

pytestmark = pytest.mark.usefixtures("standing_workers")

REFERENCE = """
import numpy as np
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 10, 4, 4)
        self.act = nn.GELU()
        self.head = nn.Linear(10, 5)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, x):
        return self.head(self.act(self.patches(x).flatten(2).transpose(1, 2)))

def build_model():
    return Net()

def inputs():
    return np.random.RandomState(0).randn(2, 3, 8, 8).astype("float32")

def labels():
    return np.random.RandomState(1).randn(2, 4, 5).astype("float32")

def loss(outputs, labels):
    return ((outputs - labels) ** 2).mean()

def build_optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)
"""

CANDIDATE = """
import paddle
from paddle import nn
from paddle.nn import functional as F

class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(48, 10)
        self.out = nn.Linear(10, 5, weight_attr=nn.initializer.Constant(0.0))

    def forward(self, x):
        n, c, h, w = x.shape
        x = x.reshape([n, c, h // 4, 4, w // 4, 4]).transpose([0, 2, 4, 3, 5, 1]).reshape([n, -1, 48])
        return self.out(F.gelu(self.embed(x)))

def build_model():
    return Net()

def loss(outputs, labels):
    return ((outputs - labels) ** 2).mean()

def build_optimizer(model):
    return paddle.optimizer.SGD(0.1, parameters=model.parameters())
"""


def checked(folder, capsys, stages, candidate):
    (folder / "zero_reference.py").write_text(REFERENCE)
    (folder / "zero_candidate.py").write_text(candidate)
    (folder / "paralign.toml").write_text(
        '[reference]\nmodule = "zero_reference.py"\nframework = "torch"\n[candidate]\nmodule = "zero_candidate.py"\nframework = "paddle"\n'
    )
    main(["check", str(folder), *stages, "--json"])
    return {stage["name"]: stage for stage in json.loads(capsys.readouterr().out)["stages"]}


def test_a_layer_of_zeros_does_not_hide_what_is_before_it(tmp_path, capsys):
    stages = checked(tmp_path, capsys, ["weights", "forward", "loss", "backward"], CANDIDATE)
    assert {name: stage["verdict"] for name, stage in stages.items()} == dict.fromkeys(stages, "aligned")
    assert any("the axes of patches in the order (0, 2, 3, 1)" in note for note in stages["weights"]["notes"])
    assert any("judged with the 2 constant parameters moved by noise" in note for note in stages["forward"]["notes"])


def test_a_mistake_before_a_layer_of_zeros_is_found(tmp_path, capsys):
    wrong = CANDIDATE.replace("F.gelu(self.embed(x))", "F.gelu(self.embed(x), approximate=True)")
    forward = checked(tmp_path, capsys, ["weights", "forward"], wrong)["forward"]
    assert forward["verdict"] == "diverged"
    assert forward["divergences"][0]["candidate"]["source"].endswith("zero_candidate.py:15")


# -- a branch that begins as nothing ----------------------------------------------------------------------------------------------


def branch(activation, start):
    """A model with a residual branch whose last factor is ``start``: of a parameter of its own, or of the last layer."""
    import torch

    class Branch(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = torch.nn.Linear(16, 16), torch.nn.Linear(16, 16)
            self.gate = torch.nn.Parameter(torch.full((1,), 1.0 if start == "last" else float(start)))
            if start == "last":
                torch.nn.init.zeros_(self.b.weight)
            torch.nn.init.zeros_(self.b.bias)

        def forward(self, x):
            return x + self.gate * self.b(activation(self.a(x)))

    return Branch


def branched(one, other, start):
    import numpy as np

    from paralign import Side, check

    sides = [Side(framework="torch", functions={"build_model": branch(activation, start)}) for activation in (one, other)]
    inputs = np.random.default_rng(0).standard_normal((4, 16)).astype("float32")
    return check(*sides, inputs=inputs, stages=["weights", "forward"])["forward"]


@pytest.mark.parametrize("start", [0, "last"])
def test_a_branch_that_begins_as_nothing_does_not_hide_what_is_in_it(start):
    from torch.nn import functional

    wrong = branched(functional.silu, functional.gelu, start)
    assert wrong.verdict == "diverged"
    assert "parameters of zeros hide what they multiply" in wrong.notes[0]
    right = branched(functional.silu, lambda x: x * x.sigmoid(), start)
    assert right.verdict == "aligned"
    assert any("the outputs agree also with 1 parameters of zeros moved" in note for note in right.notes)


def test_a_bias_of_zeros_costs_no_second_run():
    from torch.nn import functional

    result = branched(functional.silu, functional.silu, 1)
    assert result.verdict == "aligned"
    assert not any("of zeros" in note for note in result.notes)
