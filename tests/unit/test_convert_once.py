"""Arguments of converted calls are evaluated once, and where PyTorch evaluates them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from paralign.port.drafts.converted import convert_code

pytestmark = pytest.mark.programs

PROGRAM = """import torch
from torch import nn
import torch.nn.functional as F


def widths():
    layers = [nn.LazyLinear(n) for n in (3, 5, 7)]
    return [tuple(layer(torch.ones(2, 4)).shape) for layer in layers]


def named():
    features = 6
    channels = size = 5
    first, second = nn.LazyLinear(features), nn.LazyConv2d(channels, 3)
    third = nn.LazyBatchNorm1d(eps=size * 1e-3)
    return [tuple(first(torch.ones(2, 4)).shape), tuple(second(torch.ones(2, 4, 8, 8)).shape), tuple(third(torch.ones(2, 4)).shape)]


def changed():
    class Holder:
        width = 3
    holder = Holder()
    first = nn.LazyConv1d(holder.width, 2)
    holder.width = 4
    return tuple(first(torch.ones(2, 4, 6)).shape)


def hidden_windows():
    values, places = F.max_pool1d(torch.full((1, 1, 4), -float("inf")), 3, stride=2, padding=1, return_indices=True)
    return values.tolist(), places.tolist()


def undefined():
    values, places = F.max_pool1d(torch.tensor([[[1.0, float("nan"), 0.0, 2.0]]]), 2, return_indices=True)
    return str(values.tolist()), places.tolist()


def factored():
    batches = iter([torch.eye(2), 2 * torch.eye(2), 4 * torch.eye(2)])
    return [torch.linalg.inv_ex(next(batches)).inverse.tolist() for _ in range(3)]


def strided():
    made = []
    def make():
        made.append(1)
        return torch.arange(6.0)
    return torch.as_strided(make(), (2,), (1,), 1).tolist(), len(made)
"""

COMPARED = """import port
import source

for name in ("widths", "named", "changed", "hidden_windows", "undefined", "factored", "strided"):
    theirs, ours = getattr(source, name)(), getattr(port, name)()
    assert theirs == ours, (name, theirs, ours)
print("equal")
"""


def test_the_same_is_evaluated_as_often_and_as_early(tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("paddle")
    (tmp_path / "source.py").write_text(PROGRAM, encoding="utf-8")
    convert_code(tmp_path / "source.py", tmp_path / "port.py")
    (tmp_path / "compare.py").write_text(COMPARED, encoding="utf-8")
    ran = subprocess.run([sys.executable, "compare.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.stdout.strip().endswith("equal"), ran.stderr[-2000:]


def converted(tmp_path, call):
    """The converted text of a program that returns what a call gives."""
    source, port = tmp_path / "source.py", tmp_path / "port.py"
    source.write_text(f"import torch\n\ndef run(x: torch.Tensor, y: torch.Tensor):\n    return {call}\n", encoding="utf-8")
    convert_code(source, port)
    return port.read_text(encoding="utf-8")


@pytest.mark.parametrize("call", ["torch.lerp(next(x), y, 0.5)", "next(x).lerp(y, 0.5)", "torch.var_mean(next(x))"])
def test_an_argument_that_does_something_is_not_written_twice(tmp_path, call):
    assert converted(tmp_path, call).count("next(x)") == 1


def test_a_plain_argument_is_written_twice(tmp_path):
    assert "x + 0.5 * (y - x)" in converted(tmp_path, "torch.lerp(x, y, 0.5)")
