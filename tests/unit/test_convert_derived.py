"""Calls without a rule of their own, which follow from another call's: executed on both sides."""

from __future__ import annotations

import subprocess
import sys

import pytest

from paralign.catalogue.parameters import TABLES
from paralign.port.converted import convert_code
from paralign.port.ledger import Fate

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: programs that print what they compute; each is of one way of writing a call
PROGRAMS = {
    "a method from its function": "x = torch.tensor([0.5, -2.0])\nprint([round(each, 4) for each in x.erfc().tolist()], [round(each, 3) for each in (x * 2).rad2deg().tolist()])",
    "in place from its function": "x = torch.tensor([0.5, -2.0])\ny = x.eq_(torch.tensor([0.5, 1.0]))\nprint(x.tolist(), y is x)",
    "a function in place": "x = torch.tensor([0.5, -2.0])\ny = torch.abs_(x)\nprint(x.tolist(), y.tolist())",
    "in place, with gradients": (
        "a = torch.tensor([0.25, 0.5], requires_grad=True)\ny = a * 2\ny.addcmul_(a, a, value=2.0)\n(y * y).sum().backward()\n"
        "print(a.grad.tolist())"
    ),
    "each of a list": "x = [torch.tensor([-1.0]), torch.tensor([2.0])]\nprint([each.tolist() for each in torch._foreach_abs(x)], x[0].tolist())",
    "names of numpy": "x = torch.tensor([[1.0, 2.0]])\nprint(torch.sum(x, axis=1, keepdims=True).tolist(), torch.cat([x, x], axis=0).tolist())",
    "reductions as they were given before": (
        "x, y = torch.tensor([1.0, 2.0]), torch.tensor([1.0, -1.0])\n"
        "print([loss(x, y).sum().mul(1000).round().item() for loss in (torch.nn.SoftMarginLoss(reduce=False, reduction='mean'), torch.nn.MSELoss(size_average=False),"
        " torch.nn.L1Loss(size_average=True, reduce=True))], torch.nn.functional.l1_loss(x, y, size_average=False).item())"
    ),
    "a gradient asked for": "x = torch.exp(torch.full((2,), 1.0, requires_grad=True))\nprint(x.dtype is torch.float32, x.detach().tolist())\nx.sum().backward()",
    "a layer's type": "print(torch.nn.Linear(2, 3, dtype=torch.float64).bias.dtype is torch.float64)",
    "all arguments": "print([each.shape for each in map(list, torch.atleast_2d(torch.tensor(1.0), torch.tensor([1.0]))) if hasattr(each, 'shape')])",
    "a corrected spread": "x = torch.tensor([1.0, 2.0, 4.0])\nprint(round(x.std(correction=2).item(), 4), torch.var(x, dim=0, correction=3).item(), round(x.std().item(), 4))",
    "a cumulated product": "x = torch.tensor([1, 2, 3], dtype=torch.int32)\nprint(x.cumprod(0).dtype is torch.int64, torch.vander(x).dtype is torch.int64)",
    "equal": "x = torch.ones(2)\nprint(torch.equal(x, x), torch.equal(x, torch.ones(3)), x.equal(x + 1) is False)",
}  # fmt: skip


def converted(tmp_path, program):
    (tmp_path / "source.py").write_text(f"import torch\n\n{program}\n", encoding="utf-8")
    ledger = convert_code(tmp_path / "source.py", tmp_path / "port.py", force=True)
    return (tmp_path / "port.py").read_text(encoding="utf-8"), ledger


@pytest.mark.parametrize("form", PROGRAMS)
def test_a_call_that_follows_from_another_gives_the_same(tmp_path, form):
    pytest.importorskip("paddle")
    pytest.importorskip("torch")
    text, ledger = converted(tmp_path, PROGRAMS[form])
    assert not [place for place in ledger.places if place.fate is Fate.BY_HAND], text
    given = [
        subprocess.run([sys.executable, tmp_path / name], capture_output=True, text=True, check=False) for name in ("source.py", "port.py")
    ]
    assert given[0].stdout, given[0].stderr
    assert given[0].stdout == given[1].stdout, text + given[1].stderr


SIZES = """import numpy as np
import torch


def made(a):
    return torch.FloatTensor(a)


print(list(made(3).shape), made(np.ones((2, 2))).tolist())
try:
    made([2, 3])
except NotImplementedError:
    print("raises")
"""


def test_a_constructor_of_a_variable_is_decided_when_it_runs(tmp_path):
    pytest.importorskip("paddle")
    (tmp_path / "source.py").write_text(SIZES, encoding="utf-8")
    ledger = convert_code(tmp_path / "source.py", tmp_path / "port.py")
    assert not ledger.left
    done = subprocess.run([sys.executable, tmp_path / "port.py"], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["[3] [[1.0, 1.0], [1.0, 1.0]]", "raises"]


@pytest.mark.parametrize(
    "program",
    [
        "torch.ones(3)[0].eq_(torch.ones(1))",  # Paddle's parts are copies
        "torch.abs_(torch.ones(3)[0])",
        "torch.nn.MSELoss(size_average=given)",
        "torch.atleast_1d(**given)",
    ],
)
def test_what_does_not_follow_is_left_by_hand(tmp_path, program):
    text, ledger = converted(tmp_path, f"given = None\nx = {program}")
    assert ledger.left, text


def test_no_rule_stands_twice():
    found = {}
    for path in sorted(TABLES.glob("conversions*.toml")):
        for section, part in tomllib.loads(path.read_text(encoding="utf-8")).items():
            for name in part if isinstance(part, dict) and section in ("calls", "helpers", "aliases") else ():
                assert (section, name) not in found, f"{section} {name}: in {path.name} and in {found[section, name]}"
                found[section, name] = path.name
    assert len(found) > 1000


@pytest.mark.parametrize(
    "call", ["torch.logdet(x)", "torch.linalg.pinv(x)", "torch.linalg.matrix_norm(x)", "torch.linalg.cond(x)", "x.std()"]
)
def test_functions_that_paddle_gets_wrong_of_complex_numbers_raise(tmp_path, call):
    pytest.importorskip("paddle")
    text, ledger = converted(
        tmp_path, f"x = torch.tensor([[1.0 + 2.0j, 0.5], [0.0, 3.0 - 1.0j]])\nprint({call.replace('std()', 'std(correction=2)')})"
    )
    assert not ledger.left, text
    done = subprocess.run([sys.executable, tmp_path / "port.py"], capture_output=True, text=True, check=False)
    assert "NotImplementedError" in done.stderr


@pytest.mark.parametrize(
    "asked",
    ["isinstance(d, torch.distributions.Normal)", "type(d) is torch.distributions.Normal", "isinstance(d, (int, torch.nn.NLLLoss))"],
)
def test_a_class_that_stands_in_the_file_is_not_asked_for_as_paddles(tmp_path, asked):
    (tmp_path / "a.py").write_text(f"import torch\n\n\ndef is_one(d):\n    return {asked}\n")
    ledger = convert_code(tmp_path / "a.py", tmp_path / "b.py")
    assert Fate.BY_HAND in [place.fate for place in ledger.places]


def test_a_class_of_paddles_own_is_asked_for(tmp_path):
    (tmp_path / "a.py").write_text("import torch\n\n\ndef is_one(m):\n    return isinstance(m, (torch.nn.Conv2d, torch.nn.MaxPool2d))\n")
    ledger = convert_code(tmp_path / "a.py", tmp_path / "b.py")
    assert "paddle.nn.Conv2D, paddle.nn.MaxPool2D" in (tmp_path / "b.py").read_text()
    assert Fate.BY_HAND not in [place.fate for place in ledger.places]
