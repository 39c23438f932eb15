"""A part that is built and never called, in a module whose parts are modules of the user's own: the line is the module's, not a part's."""

from __future__ import annotations

import json

import pytest

from paralign.cli import main

pytest.importorskip("torch")
pytest.importorskip("paddle")

REFERENCE = """
import torch
from torch import nn

class Unit(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        x = self.norm(self.linear(x))
        return torch.nn.functional.silu(x)

class Gate(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Linear(width, width)

    def forward(self, x):
        return x * torch.sigmoid(self.inner(x.mean(0)))

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.grow, self.gate, self.shrink = Unit(width), Gate(width), Unit(width)

    def forward(self, x):
        y = self.grow(x)
        y = self.gate(y)
        y = self.shrink(y)
        return y + x

def build_model():
    torch.manual_seed(0)
    return nn.Sequential(Block(6), Block(6))
"""

PROJECT = (
    '[reference]\nmodule = "parts_reference.py"\nframework = "torch"\n'
    '[candidate]\nmodule = "parts_candidate.py"\nframework = "paddle"\n[inputs]\nshape = [3, 6]\n'
)


def ported():
    text = REFERENCE.replace("import torch\nfrom torch import nn", "import paddle\nfrom paddle import nn")
    text = (
        text.replace("nn.Module", "nn.Layer")
        .replace("torch.nn.functional", "nn.functional")
        .replace("torch.sigmoid", "nn.functional.sigmoid")
    )
    return text.replace("    torch.manual_seed(0)\n", "")


def test_the_line_is_the_modules(tmp_path, capsys):
    left_out, after = "        y = self.gate(y)\n", "y = self.shrink(y)"
    candidate = ported()
    assert candidate.count(left_out) == 1
    candidate = candidate.replace(left_out, "")
    for name, text in {"parts_reference.py": REFERENCE, "parts_candidate.py": candidate, "paralign.toml": PROJECT}.items():
        (tmp_path / name).write_text(text)
    main(["check", str(tmp_path), "forward", "--json"])
    stage = next(each for each in json.loads(capsys.readouterr().out)["stages"] if each["name"] == "forward")
    line = int(stage["divergences"][0]["candidate"]["source"].rpartition(":")[2])
    assert candidate.splitlines()[line - 1].strip() == after
