"""What a program's values decide: narrow whole numbers, NaN, equal elements, gradients of gradients."""

from __future__ import annotations

import ast
import json
import subprocess
import sys

import pytest

from paralign.port.drafts.converted import convert_code
from paralign.port.edits.ledger import Fate
from paralign.port.names.value_hints import holds_nan, holds_narrow

NARROW = """import json
import torch


class Box:
    def __init__(self, x):
        self.x = x

    def total(self):
        return self.x.sum()


class Own:
    def sum(self, axis=0):
        return torch.tensor(axis + 7)


def total(x):
    return x.sum()


def along(x):
    return torch.sum(x, 0), x.sum(dim=0, keepdim=True), x.sum(-1)


kinds = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.float32)
values = [torch.tensor([[100, 100], [27, 100]]).to(kind) for kind in kinds]
found = [total(each) for each in (*values, Own())] + [Box(each).total() for each in values]
found += [part for each in values for part in along(each)]
print(json.dumps([(str(each.dtype).split(".")[-1], each.tolist()) for each in found]))
"""

TWICE = """import json
import torch

a = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
b = torch.tensor([[0.5, 2.0], [1.0, -1.0]], requires_grad=True)
found = []
for equation, operands in (
    ("ij,jk->ik", (a, b)), ("ij,ij->i", (a, b)), ("ij,ik->ijk", (a, b)), ("ij,jk", (a, b)), ("ij,ij->", (a, b)),
    ("ij,kl->lkji", (a, b)), ("...j,kj->...k", (a[None], b)), ("...ij,...jk", (a[None], b)), ("ij,jk,kl->il", (a, b, a)),
    ("ij,kj->k", (a, b)), ("ncf,ncf->nf", (a[None], b[None])), ("ij->j", (a * b,)), ("i j , j k -> k i", (a, b)),
):
    y = torch.einsum(equation, *operands)
    first = torch.autograd.grad(y.sin().sum(), [a, b], create_graph=True, allow_unused=True)
    second = torch.autograd.grad(sum((each**2).sum() for each in first if each is not None), a)
    found.append([list(y.shape), y.flatten().tolist(), second[0].flatten().tolist()])
y = torch.einsum("ij,jk->ik", [a, b])
found.append([list(y.shape), y.flatten().tolist(), []])
print(json.dumps(found))
"""


def sides(folder, program):
    """What a program and its port print."""
    source, port = folder / "source.py", folder / "port.py"
    source.write_text(program, encoding="utf-8")
    convert_code(source, port)
    ran = [subprocess.run([sys.executable, each], capture_output=True, text=True, check=False) for each in (source, port)]
    assert ran[1].returncode == 0, ran[1].stderr
    return [json.loads(each.stdout) for each in ran]


def told(folder, program):
    """The lines that stand under a condition."""
    (folder / "told.py").write_text(program, encoding="utf-8")
    ledger = convert_code(folder / "told.py", folder / "told_port.py", force=True)
    return {each.line for each in ledger.places if each.fate is Fate.CONDITION}


def test_sums_of_unknown_type_are_wide_where_a_program_has_narrow_numbers(tmp_path):
    pytest.importorskip("paddle")
    pytest.importorskip("torch")
    expected, found = sides(tmp_path, NARROW)
    assert found == expected
    assert expected[0] == ["int64", 327]


def test_sums_stay_as_they_are_where_no_narrow_numbers_are(tmp_path):
    source = "import torch\n\n\ndef total(x):\n    return x.sum() + torch.sum(x)\n"
    (tmp_path / "wide.py").write_text(source, encoding="utf-8")
    convert_code(tmp_path / "wide.py", tmp_path / "port.py")
    assert "return x.sum() + paddle.sum(x)" in (tmp_path / "port.py").read_text(encoding="utf-8")


def test_gradients_of_gradients_go_through_einsum(tmp_path):
    pytest.importorskip("paddle")
    pytest.importorskip("torch")
    for expected, found in zip(*sides(tmp_path, TWICE), strict=True):
        assert found[0] == expected[0]
        for ours, theirs in zip(found[1:], expected[1:], strict=True):
            assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-4)


DATA = """import torch

x = torch.tensor([1.0, {}])
seen = torch.relu(x), x.argmax(), x.max(dim=0), x.sign()
known = x.max(), x.clamp(0, 1), x.sort()
"""


def test_results_for_nan_are_told_where_nan_is_among_the_data(tmp_path):
    assert told(tmp_path, DATA.format('float("nan")')) == {4}
    assert told(tmp_path, DATA.format("2.0")) == set()
    assert told(tmp_path, DATA.format("2.0") + "if torch.isnan(x).any():\n    raise ValueError\n") == set()


def test_places_of_equal_elements_are_told_where_they_may_be_used(tmp_path):
    calls = "import torch\nx = torch.ones(3, 4)\na = x.kthvalue(2)\nb = x.median(1)\nc = x.median()\nd = x.kthvalue(2).values\ne = torch.median(x, 1)[0]\n"
    assert told(tmp_path, calls) == {3, 4}


@pytest.mark.parametrize(
    ("program", "narrow", "nan"),
    [
        ("x.byte()", True, False),
        ("np.zeros(3, 'uint8')", True, False),
        ("from PIL import Image", True, False),
        ("import cv2 as c", True, False),
        ("byte = 3", False, False),
        ("x.int()", False, False),
        ("np.nan", False, True),
        ("float('NaN')", False, True),
        ("y = x[torch.isnan(x)]", False, True),
        ("assert not torch.isnan(x).any()", False, False),
        ("float(x)", False, False),
    ],
)
def test_what_a_program_says_of_its_values(program, narrow, nan):
    tree = ast.parse(program)
    assert (holds_narrow(tree), holds_nan(tree)) == (narrow, nan)


NORMALISED = """
import copy
import json
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 1)
        self.norm = nn.GroupNorm(2, 4)

    def forward(self, x):
        return self.norm(self.conv(x))


def start(layer):
    if type(layer) in (nn.BatchNorm2d, nn.GroupNorm):
        nn.init.constant_(layer.weight, 3.0)
    if layer.__class__.__name__ == "GroupNorm":
        nn.init.constant_(layer.bias, 0.5)


net = Net()
nn.init.constant_(net.conv.weight, 0.3)
nn.init.constant_(net.conv.bias, 0.1)
net.apply(start)
other = copy.deepcopy(net)
nn.init.constant_(other.norm.weight, 2.0)
x = (torch.arange(48.0).reshape(2, 2, 3, 4) % 7 / 3).requires_grad_()
found = []
for each in (net, other):
    g, = torch.autograd.grad((each(x) ** 3).sum(), x, create_graph=True)
    found += [each(x).sum().item(), each(x).pow(2).sum().item(), g.pow(2).sum().item()]
print(json.dumps(found))
"""


def test_a_group_norm_with_second_derivatives_keeps_its_class_and_is_copied(tmp_path):
    pytest.importorskip("paddle")
    pytest.importorskip("torch")
    theirs, ours = sides(tmp_path, NORMALISED)
    assert ours == pytest.approx(theirs, rel=1e-3)


def test_what_one_file_says_of_values_holds_for_the_program(tmp_path):
    pytest.importorskip("paddle")
    pytest.importorskip("torch")
    source, port = tmp_path / "source", tmp_path / "port"
    source.mkdir()
    (source / "data.py").write_text("import torch\n\n\ndef made():\n    return torch.full((4,), 100, dtype=torch.uint8), float('nan')\n")
    (source / "metric.py").write_text(
        "import torch\n\n\ndef total(x):\n    return x.sum()\n\n\ndef place(x: torch.Tensor):\n    return x.argmax()\n"
    )
    (source / "main.py").write_text("from data import made\nfrom metric import total\n\nprint(int(total(made()[0])))\n")
    ledger = convert_code(source, port)
    ran = [subprocess.run([sys.executable, "main.py"], cwd=each, capture_output=True, text=True, check=True) for each in (source, port)]
    assert [each.stdout for each in ran] == ["400\n", "400\n"]
    assert any("NaN is treated otherwise" in str(place) for place in ledger.places)
    (source / "data.py").unlink()
    alone = convert_code(source, tmp_path / "alone")
    assert not any("NaN is treated otherwise" in str(place) for place in alone.places)
    assert "_summed" not in (tmp_path / "alone" / "metric.py").read_text()
