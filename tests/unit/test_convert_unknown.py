"""Calls of objects whose type the source does not tell, and classes that are asked for: right whatever they turn out to be."""

from __future__ import annotations

import subprocess
import sys

import pytest

from paralign.catalogue.parameters import TABLES
from paralign.port.drafts.converted import convert_code
from paralign.port.edits.ledger import Fate
from paralign.port.plans.conversions import conversions

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytestmark = pytest.mark.programs

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


ELSEWHERE = """import math
import os.path
import statistics as numbers

import anchors
import torch
from anchors import ANCHORS
from os import path


def of_other_files():
    return ANCHORS.median(), anchors.ANCHORS.max(1)[0], ANCHORS.sort(1)[0], ANCHORS.div(3, rounding_mode="floor"), ANCHORS.long()


def of_modules():
    return math.prod([2, 3]), numbers.median([1.0, 2.0, 4.0]), os.path.split("a/b"), path.split("c/d"), anchors.split("e")


print([each.tolist() for each in of_other_files()], of_modules())
"""


def test_what_another_file_gives_may_be_a_tensor_and_a_module_is_none(tmp_path):
    pytest.importorskip("paddle")
    pytest.importorskip("torch")
    text, ledger = converted(tmp_path, ELSEWHERE)
    assert not ledger.left
    assert 'math.prod([2, 3]), numbers.median([1.0, 2.0, 4.0]), os.path.split("a/b"), path.split("c/d"), anchors.split("e")' in text
    assert "torch.Tensor.long" in {each.name for each in ledger.places if each.fate is Fate.UNTOUCHED}
    given = []
    for framework, name in (("torch", "source.py"), ("paddle", "port.py")):
        made = f"import {framework}\n\nANCHORS = {framework}.arange(8.0).reshape([4, 2])\n\n\ndef split(x):\n    return x\n"
        (tmp_path / "anchors.py").write_text(made, encoding="utf-8")
        run = [sys.executable, "-B", name]
        given.append(subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.strip())
    assert given[0] == given[1]


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


OUT = """import torch

x = torch.tensor([[1.0, 2.0, 4.0], [3.0, 5.0, 7.0]])
total = torch.empty(0)
given = torch.sum(x, dim=1, out=total)
wide = torch.empty(2, 3, dtype=torch.float64)
torch.add(x, 1.0, out=wide)
high, at = torch.empty(0), torch.empty(0, dtype=torch.int64)
torch.max(x, 1, out=(high, at))
grown = torch.tensor([1.0, 2.0], requires_grad=True)
(grown * grown).sum().backward()
print(given.tolist(), total.tolist(), wide.tolist(), high.tolist(), at.tolist(), grown.grad.tolist())
"""


def test_out_is_written_into_and_a_gradient_is_asked_for(tmp_path):
    pytest.importorskip("paddle")
    pytest.importorskip("torch")
    text, ledger = converted(tmp_path, OUT)
    assert not ledger.left, text
    given = [
        subprocess.run([sys.executable, tmp_path / name], capture_output=True, text=True, check=True).stdout.strip()
        for name in ("source.py", "port.py")
    ]
    assert given[0] == given[1]
    assert given[0].startswith("[7.0, 15.0] [7.0, 15.0]")


@pytest.mark.parametrize("out", ["out=self.kept.T", "out=made()"])
def test_out_that_is_no_plain_name_raises_at_its_line(tmp_path, out):
    _, ledger = converted(tmp_path, f"import torch\n\n\ndef f(self, made):\n    return torch.sum(torch.ones(2), 0, {out})\n")
    assert (Fate.BY_HAND, 5) in [(each.fate, each.line) for each in ledger.places]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("torch.bitwise_xor(torch.ones(2).long(), other=torch.ones(2).long())", ".astype('int64') ^ paddle.ones(2)"),
        ("torch.functional.split(torch.ones(4), 2)", "paddle.compat.split("),
        ("torch.zeros(2, dtype=torch.complex64)", "dtype=paddle.complex64"),
    ],
)
def test_calls_that_were_executed_on_both_sides_are_written(tmp_path, source, expected):
    text, ledger = converted(tmp_path, f"import torch\n\nvalue = {source}\n")
    assert expected in text
    assert not ledger.left


def test_a_function_that_stands_in_a_file_is_defined_in_one_table_alone():
    tables = [tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(TABLES.glob("conversions*.toml"))]
    names = [name for table in tables for name in table.get("helpers", {})]
    assert sorted(names) == sorted(set(names))


def test_padding_of_a_tensor_is_not_that_of_an_image(tmp_path):
    paddle = pytest.importorskip("paddle")
    text, _ = converted(tmp_path, "import torch\nimport torch.nn.functional as F\n\n\ndef f(x):\n    return F.pad(x, (1, 0), value=-1.0)\n")
    space = {}
    exec(text, space)
    assert space["f"](paddle.ones([1, 1, 2])).tolist() == [[[-1.0, 1.0, 1.0]]]


@pytest.mark.parametrize("text", ["'{}'.format(x)", "str(x)", "f'{x}'"])
def test_the_text_of_a_tensor_is_told(tmp_path, text):
    _, ledger = converted(tmp_path, f"import torch\n\nx = torch.ones(2)\ny = {text}\nz = str(3)\n")
    assert [(each.fate, each.line) for each in ledger.places if each.name.endswith("__format__")] == [(Fate.CONDITION, 4)]


DIAGONALS = """import torch

x = torch.tensor([[[1, 2, 3], [4, 5, 6]], [[7, 8, 9], [10, 11, 12]]], dtype=torch.int32)
wide = torch.linalg.diagonal(x), torch.linalg.diagonal(x, offset=1), torch.linalg.diagonal(x, dim1=0, dim2=1), torch.diagonal(x)
print([each.tolist() for each in wide], str(torch.trace(x[0]).dtype).rpartition(".")[2], torch.trace(x[0]).item())
"""


def test_diagonals_and_traces_are_of_the_axes_and_the_type_of_pytorch(tmp_path):
    pytest.importorskip("paddle")
    pytest.importorskip("torch")
    text, ledger = converted(tmp_path, DIAGONALS)
    assert not ledger.left, text
    given = [
        subprocess.run([sys.executable, tmp_path / name], capture_output=True, text=True, check=True).stdout.strip()
        for name in ("source.py", "port.py")
    ]
    assert given[0] == given[1]
    assert given[0].startswith("[[[1, 5], [7, 11]]")


class Held:
    def fill(self, value):
        self.value = value
        return value


def test_an_argument_called_value_reaches_the_method_of_an_unknown_object():
    space = {"paddle": type("Module", (), {"is_tensor": staticmethod(callable)})}
    exec(conversions().helpers["_of_tensor"], space)
    assert space["_of_tensor"](None, "fill", Held(), value=3) == 3


@pytest.mark.paddle
def test_a_linears_weight_by_its_name_is_not_handed_out_the_other_way_round():
    paddle = pytest.importorskip("paddle")
    space = {"paddle": paddle}
    exec(conversions().helpers["_part_of"], space)
    model = paddle.nn.Sequential(("body", paddle.nn.Linear(4, 4)), ("norm", paddle.nn.LayerNorm(4)))
    with pytest.raises(NotImplementedError, match=r"`body\.weight` of a Linear lies the other way round"):
        space["_part_of"](model, "body.weight")
    assert space["_part_of"](model, "body.bias") is model.body.bias
    assert space["_part_of"](model, "norm.weight") is model.norm.weight
    assert space["_part_of"](model, "body") is model.body
