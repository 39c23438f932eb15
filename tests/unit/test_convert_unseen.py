"""Ways of writing programs that sources from elsewhere had, and that were converted wrong or not at all."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest

from paralign.catalogue.parameters import TABLES
from paralign.port.converted import convert_code
from paralign.port.ledger import Fate

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HEAD = "import functools\n\nimport torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n"

#: programs that print the same on both sides
PROGRAMS = {
    "operands in a list": "x = torch.arange(6.0).reshape(2, 3)\nprint(torch.einsum('ij,kj->ik', [x, x]).tolist(), torch.einsum('ij->ji', x).tolist())",
    "a value that is a tensor": "x = torch.zeros(2)\nx.fill_(torch.tensor([2.5])[0])\nprint(x.tolist())",
    "a number of one element": "x = torch.tensor([3])\nprint(int(x), float(x), int(torch.tensor([4])))",
    "a type asked": "print(torch.ones(2).dtype.is_floating_point, torch.ones(2).long().dtype.is_floating_point, torch.ones(1).dtype.is_complex)",
    "places as a tuple": "print([each.tolist() for each in (torch.tensor([[0, 1], [1, 1]]) > 0).nonzero(as_tuple=True)])",
    "truth values on the diagonal": "print(torch.eye(2, dtype=torch.bool).tolist())",
    "an activation with a setting, handed on": (
        "made = functools.partial(nn.GELU, approximate='tanh')\nprint([round(each, 4) for each in made()(torch.tensor([-1.0, 2.0])).tolist()])"
    ),
    "statistics that are set": (
        "norm = nn.BatchNorm1d(2).eval()\nnorm.running_mean = torch.tensor([1.0, 2.0])\nnorm.running_var *= 4\n"
        "print([round(each, 3) for each in norm(torch.ones(1, 2)).flatten().tolist()], norm.running_mean.tolist())"
    ),
    "statistics of an own norm": (
        "class Own(nn.BatchNorm1d):\n    def forward(self, x):\n        return x - self.running_mean + self.running_var\n\n"
        "norm = Own(2)\nnorm.running_mean.fill_(0.5)\nprint(norm(torch.ones(1, 2)).tolist())"
    ),
    "in place, what gradients need": (
        "x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)\nat = torch.tensor([0, 0, 1])\n"
        "total = torch.zeros(2).scatter_add_(0, at, x)\n(x / total[at]).pow(2).sum().backward()\nprint([round(each, 4) for each in x.grad.tolist()])"
    ),
    "packed sequences": (
        "torch.manual_seed(0)\nlayer = nn.GRU(2, 3, bidirectional=True)\n"
        "layer.load_state_dict({name: torch.full_like(value, 0.1) for name, value in layer.state_dict().items()})\n"
        "x = torch.arange(12.0).reshape(3, 2, 2) / 10\n"
        "packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([2, 3]), enforce_sorted=False)\nout, last = layer(packed)\n"
        "(out.data.pow(2).sum() + last.sum()).backward()\n"
        "print([[round(each, 4) for each in row] for row in layer.weight_hh_l0_reverse.grad.tolist()], [round(each, 4) for each in last.flatten().tolist()])"
    ),
    "laws apart": (
        "from torch.distributions import Categorical, Independent, Normal, kl_divergence\n"
        "print(round(kl_divergence(Categorical(probs=torch.tensor([0.5, 0.5])), Categorical(probs=torch.tensor([0.25, 0.75]))).item(), 4),"
        " round(kl_divergence(Independent(Normal(torch.ones(2), 1.0), 1), Independent(Normal(torch.zeros(2), 2.0), 1)).item(), 4))"
    ),
    "parameters in a row": (
        "net = nn.LayerNorm(3)\nv = nn.utils.parameters_to_vector(net.parameters())\n"
        "nn.utils.vector_to_parameters(v * 3, net.parameters())\nprint(v.tolist(), net.weight.tolist())"
    ),
}


@pytest.mark.torch
@pytest.mark.paddle
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_port_prints_what_the_original_prints(tmp_path, name):
    (tmp_path / "in.py").write_text(HEAD + PROGRAMS[name] + "\n")
    ledger = convert_code(tmp_path / "in.py", tmp_path / "out.py")
    assert not ledger.left
    told = [
        subprocess.run([sys.executable, str(tmp_path / each)], capture_output=True, text=True, check=False) for each in ("in.py", "out.py")
    ]
    assert [each.returncode for each in told] == [0, 0], told[-1].stderr
    assert told[0].stdout == told[1].stdout


def converted(tmp_path, source):
    (tmp_path / "in.py").write_text(HEAD + source)
    ledger = convert_code(tmp_path / "in.py", tmp_path / "out.py", force=True)
    return (tmp_path / "out.py").read_text(), ledger


@pytest.mark.parametrize("kind", ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d"])
def test_a_difference_is_told_of_every_callable_that_its_entry_names(tmp_path, kind):
    _, ledger = converted(tmp_path, f"norm = nn.{kind}(3, momentum=0.3)\n")
    (place,) = [each for each in ledger.places if each.name == f"torch.nn.{kind}"]
    assert place.fate is Fate.CONDITION
    assert "running variance" in place.note


def test_a_part_of_a_shape_is_no_size_of_zero(tmp_path):
    _, ledger = converted(tmp_path, "def f(x: torch.Tensor):\n    return x.view(x.size(0), -1), x.reshape(0, 2)\n")
    fates = [each.fate for each in ledger.places if each.name in ("torch.Tensor.view", "torch.Tensor.reshape")]
    assert fates == [Fate.EQUAL, Fate.CONDITION]


def test_a_default_that_is_not_converted_raises_where_it_is_called(tmp_path):
    text, ledger = converted(
        tmp_path,
        "class Net(nn.Module):\n    def __init__(self, act=functools.partial(nn.RReLU, inplace=True), norm=nn.CrossMapLRN2d):\n        super().__init__()\n",
    )
    assert [each.name for each in ledger.places if each.fate is Fate.BY_HAND] == ["torch.nn.RReLU", "torch.nn.CrossMapLRN2d"]
    assert text.count("=_not_converted(") == 2


def test_no_helper_stands_in_two_tables():
    found = Counter(
        name for path in TABLES.glob("conversions*.toml") for name in tomllib.loads(path.read_text(encoding="utf-8")).get("helpers", {})
    )
    assert [name for name, times in found.items() if times > 1] == []
