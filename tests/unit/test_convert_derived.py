"""Calls without a rule of their own, which follow from another call's: executed on both sides."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from paralign.catalogue.parameters import TABLES
from paralign.port.drafts.converted import convert_code
from paralign.port.edits.ledger import Fate

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytestmark = pytest.mark.programs

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
    "bounds of whole numbers": (
        "shape, x = [2, 2], torch.zeros(1, 2)\nf = torch.randint\nprint(torch.randint(1, (2, 2)).tolist(), torch.randint(1, shape).shape == (2, 2),"
        " torch.randint(1, x.shape).tolist(), f(1, (2,)).tolist(), f(3, 4, (2,)).tolist(), torch.randint(high=1, size=(2,), dtype=torch.int32).dtype is torch.int32,"
        " torch.randint(*(3, 4), (2,)).tolist(), torch.randint(5, 6, (1,)).dtype is torch.int64)"
    ),
    "a choice of several types": (
        "x, c = torch.tensor([1.0, -2.0]), torch.tensor([True, False])\nf = torch.where\nlong, wide, small = torch.tensor([1, 2]), x.double(), torch.tensor([1, 2], dtype=torch.uint8)\n"
        "for r in (x.where(c, 0), torch.where(c, x, 0), torch.where(c, 1, 0), torch.where(c, 1, 0.0), torch.where(c, x, long), torch.where(c, x, wide), f(c, x, wide[0]), torch.where(c, long, 0.5),"
        " torch.where(c, c, 2), torch.where(c, small, 3), torch.where(c, wide, 1.5), torch.where(c, *[x, long]), torch.where(c, small, small.to(torch.int8))):\n"
        "    print(r.tolist(), str(r.dtype).rpartition('.')[2])\nprint([each.tolist() for each in torch.where(c)])"
    ),
    "the greater of several types": (
        "a, b = torch.tensor([1, 5]), torch.tensor([2.5, 3.0])\nfor r in (torch.max(a, other=b), a.min(other=b), torch.maximum(a, b), a.minimum(b), torch.fmax(b.double(), b), torch.fmin(a.int(), a)):\n"
        "    print(r.tolist(), str(r.dtype).rpartition('.')[2])"
    ),
    "a number among others": (
        "x = torch.tensor([1, 2, 3])\nprint(torch.isin(x, 2).tolist(), torch.isin(2, x).tolist(), torch.isin(x, 2, invert=True).tolist(), torch.isin(x, torch.tensor([1.0, 2.5])).tolist(),"
        " torch.isin(elements=x, test_element=2).tolist(), torch.isin(element=1, test_elements=x).tolist())"
    ),
    "draws of whole numbers": (
        "x = torch.zeros(3, dtype=torch.int64)\nprint(torch.bernoulli(x, 1.0).tolist(), x.bernoulli(1.0).dtype is torch.int64, torch.zeros(2).bernoulli().tolist(), torch.ones(2).bernoulli(p=0.0).tolist())\n"
        "print(x.bernoulli_(1.0) is x, x.tolist(), torch.zeros(2).bernoulli_(torch.tensor([1.0, 0.0])).tolist(), torch.zeros(2, dtype=torch.bool).bernoulli_(1).tolist())"
    ),
    "lists in the place of arguments": (
        "x, limits, axes, keywords = torch.arange(6.0).reshape(2, 3), [1.0, 4.0], (0, 1), {'dim': 1, 'keepdim': True}\n"
        "print(x.clamp(*limits).tolist(), x.transpose(*axes).tolist(), x.roll(*(1, 0)).tolist(), x.narrow(*[1, 0, 2]).tolist(), x.sum(**keywords).tolist(), x.max(**keywords)[0].tolist(),"
        " x.gather(*(1, torch.tensor([[0], [1]]))).tolist(), x.index_select(*(1, torch.tensor([0]))).tolist())"
    ),
    "windows of any names": (
        "places, last = 6, 2.0\nfrom torch.signal import windows\nfor each in (torch.kaiser_window(places, False, last), windows.kaiser(5, beta=last), windows.gaussian(5, std=last), windows.exponential(5, tau=last)):\n"
        "    print([round(one, 4) for one in each.tolist()])"
    ),
    "a mask that is scattered": (
        "m, i = torch.tensor([[True, False, False]]), torch.tensor([[2, 0, 1]])\nprint(m.scatter(1, i, m).tolist(), torch.zeros(1, 3, dtype=torch.bool).scatter_(1, i[:, :1], True).tolist())"
    ),
    "keys that are missing": (
        "found = torch.nn.Linear(2, 1).load_state_dict({'bias': torch.zeros(1)}, strict=False)\nprint(found.missing_keys, found.unexpected_keys)"
    ),
    "running statistics": "m = torch.nn.BatchNorm1d(2)\nprint(m.running_mean.tolist(), [each.running_var.tolist() for each in torch.nn.Sequential(m)])",
    "the name of a type": "x = torch.ones(2)\nprint(x.type(), x.int().type(), x.type(torch.float64).type(), x.bool().type())",
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


def test_arguments_stand_in_no_function_that_a_rule_writes():
    """A parameter of such a function would hide the program's own variable of that name."""
    for path in sorted(TABLES.glob("conversions*.toml")):
        for line in path.read_text(encoding="utf-8").split("\n"):
            for body in re.findall(r"lambda(?! size, \*given:)[^:]*:([^\"]*)", line) if line.startswith('"torch') else ():
                assert not re.search(r"\{\w+\}", body), line


@pytest.mark.parametrize(("source", "told"), [("torch.arange(4.0).reshape(p.shape)", True), ("q", False)])
def test_elements_written_into_any_parameter_are_told(tmp_path, source, told):
    program = f"for p, q in zip(net.parameters(), other.parameters()):\n        p.data.copy_({source})"
    _, ledger = converted(tmp_path, f"def moved(net, other):\n    {program}")
    places = [place for place in ledger.places if place.name == "torch.Tensor.copy_"]
    assert places
    assert [place.fate is Fate.CONDITION and "[in, out]" in place.note for place in places] == [told]


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
