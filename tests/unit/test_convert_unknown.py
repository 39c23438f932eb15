"""Calls of objects whose type the source does not tell, and classes that are asked for: right whatever they turn out to be."""

from __future__ import annotations

import subprocess
import sys

import pytest

from paralign.port.converted import convert_code
from paralign.port.ledger import Fate

METHODS = """import numpy as np
import torch
from torch import nn


def of_unknown(x):
    return x.norm(p=1, dim=(0, 1)), x.norm(), x.max(), x.split(2)[0]


class Own:
    def norm(self, p=2, dim=None):
        return f"own {p} {dim}"

    def max(self):
        return "own max"

    def split(self, size):
        return [size]
"""

CLASSES = """import torch
from torch import nn


def made(norm=nn.BatchNorm2d, linear=nn.Linear):
    return norm(3), linear(2, 3), nn.Linear(2, 3), nn.Conv2d(3, 3, 1), Own(2, 3)


class Own(nn.Linear):
    pass


def asked():
    found = []
    for m in made():
        found += [type(m) == nn.Linear, type(m) in (nn.Conv2d, nn.BatchNorm2d), type(m) is not torch.nn.Linear]
    return found


print(asked())
"""


def converted(tmp_path, source):
    (tmp_path / "source.py").write_text(source, encoding="utf-8")
    ledger = convert_code(tmp_path / "source.py", tmp_path / "port.py", force=True)
    return (tmp_path / "port.py").read_text(encoding="utf-8"), ledger


def test_a_method_of_an_unknown_object_is_pytorchs_for_a_tensor_and_its_own_otherwise(tmp_path):
    paddle = pytest.importorskip("paddle")
    text, ledger = converted(tmp_path, METHODS)
    assert not ledger.left
    space = {}
    exec(text, space)
    x = paddle.to_tensor([[3.0, -4.0], [1.0, 2.0], [0.0, -1.0]])
    norm, plain, highest, part = space["of_unknown"](x)
    assert float(norm) == 11.0  # of matrices Paddle would give 7: the largest sum of a column
    assert float(plain) == pytest.approx(31**0.5)
    assert float(highest) == 3.0
    assert part.shape == [2, 2]  # Paddle's would be two parts
    assert space["of_unknown"](space["Own"]()) == ("own 1 (0, 1)", "own 2 None", "own max", 2)


def test_a_method_that_stays_what_it_is_is_not_wrapped(tmp_path):
    text, _ = converted(tmp_path, "import torch\n\n\ndef f(x):\n    return x.squeeze(), x.split(','), x.max(axis=0), torch.ones(2)\n")
    assert "return x.squeeze(), x.split(','), x.max(axis=0), paddle.ones(2)" in text


def test_a_function_of_the_same_name_in_the_file_is_not_hidden(tmp_path):
    source = "import torch\n\n\ndef _of_tensor(x):\n    return torch.ones(2)\n\n\ndef f(x):\n    return x.norm(1, (0, 1))\n"
    _, ledger = converted(tmp_path, source)
    assert [each.fate for each in ledger.places if each.name == "torch.Tensor.norm"] == [Fate.BY_HAND]


def test_the_class_of_a_layer_is_what_it_is_in_pytorch(tmp_path):
    pytest.importorskip("paddle")
    pytest.importorskip("torch")
    _, ledger = converted(tmp_path, CLASSES)
    assert not ledger.left
    given = [
        subprocess.run([sys.executable, tmp_path / name], capture_output=True, text=True, check=True).stdout.strip()
        for name in ("source.py", "port.py")
    ]
    assert given[0] == given[1]
    assert "True" in given[0]


@pytest.mark.parametrize("layer", ["nn.BatchNorm1d(3, momentum=None)", "nn.BatchNorm2d(3, 1e-5, None)"])
def test_a_rule_that_none_asks_for_raises_at_its_line(tmp_path, layer):
    text, ledger = converted(tmp_path, f"import torch\nfrom torch import nn\n\nlayer = {layer}\n")
    assert "1 - None" not in text
    assert [(each.fate, each.line) for each in ledger.places] == [(Fate.BY_HAND, 4)]
