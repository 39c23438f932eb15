"""States of models that a program makes itself, with weights of Linear as PyTorch lays them out."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from paralign.port.drafts.converted import convert_code
from paralign.port.edits.made_states import is_made, made_keys

PROGRAM = """import copy
import math

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, inner=3, out=3):
        super().__init__()
        self.a = nn.Linear(3, inner)
        self.b = nn.Linear(inner, out)

    def forward(self, x):
        return self.b(self.a(x))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, 3)
        self.up = nn.Linear(3, 4)
        self.down = nn.Linear(4, 3)
        self.head = nn.Linear(3, 5, bias=False)
        self.head.weight = self.table.weight

    def forward(self, i):
        return self.head(self.down(self.up(self.table(i))))


def drawn(*sizes):
    return torch.arange(float(math.prod(sizes))).reshape(sizes) / 10


def made(inner, out):
    state = {}
    state["a.weight"], state["a.bias"] = drawn(inner, 3), torch.zeros(inner)
    state["b.weight"] = torch.arange(inner * out).reshape(out, inner).float()
    state["b.bias"] = torch.ones(out)
    return state


X = torch.arange(6.0).reshape(2, 3) / 5


def square_beside_oblong():
    net = Net(3, 2)
    net.load_state_dict(made(3, 2))
    return net(X)


def oblong():
    net = Net(4, 2)
    told = net.load_state_dict({"a.weight": drawn(4, 3), "a.bias": torch.zeros(4), "other": torch.ones(1)}, strict=False)
    return torch.tensor([float(len(told.missing_keys)), float(len(told.unexpected_keys)), *net.a(X).flatten().tolist()])


def one_of_a_state():
    net = Net(4, 4)
    nn.init.constant_(net.b.weight, 0.5)
    nn.init.zeros_(net.b.bias)
    state = net.state_dict()
    state["a.weight"], state["a.bias"] = drawn(4, 3), torch.zeros(4)
    net.load_state_dict(state)
    return net(X)


def shared():
    net = Tied()
    state = {"table.weight": drawn(5, 3), "up.weight": drawn(4, 3), "up.bias": drawn(4), "down.weight": drawn(3, 4), "down.bias": drawn(3)}
    state["head.weight"] = state["table.weight"]
    net.load_state_dict(state)
    return net(torch.tensor([1, 4]))


def copied():
    net, other, third = Net(), Net(), Net()
    for p in net.parameters():
        nn.init.constant_(p, 0.25)
    other.load_state_dict({name: value.clone() for name, value in net.state_dict().items()})
    mean = {}
    for name, value in other.state_dict().items():
        mean[name] = value * 0.5 + torch.zeros_like(value)
    third.load_state_dict(copy.deepcopy(mean))
    return third(X)


def square():
    net = Net()
    net.load_state_dict(made(3, 3))
    return net(X)


def square_of_a_state():
    net = Net()
    state = net.state_dict()
    state["a.weight"] = torch.arange(9.0).view(3, 3)
    net.load_state_dict(state)
    return net.a(X) - net.a.bias


for each in (square_beside_oblong, oblong, one_of_a_state, shared, copied, square, square_of_a_state):
    try:
        print(each.__name__, [round(value, 3) for value in each().flatten().tolist()])
    except RuntimeError as error:
        print(each.__name__, "refused", str(error)[:30])
"""


def _printed(folder, name):
    return subprocess.run([sys.executable, name], cwd=folder, capture_output=True, text=True, check=True).stdout.splitlines()


def test_a_state_that_is_made_is_loaded_as_it_lies_or_raises(tmp_path):
    pytest.importorskip("paddle")
    pytest.importorskip("torch")
    (tmp_path / "source.py").write_text(PROGRAM, encoding="utf-8")
    assert not convert_code(tmp_path / "source.py", tmp_path / "port.py").left
    expected = _printed(tmp_path, "source.py")
    expected[-2:] = ["square refused ['a.weight', 'b.weight']: squa", "square_of_a_state refused ['a.weight']: square weights o"]
    assert _printed(tmp_path, "port.py") == expected


@pytest.mark.parametrize(
    ("lines", "made"),
    [
        ("s = {'a': torch.tensor([1.0])}", True),
        ("s = {}; s['a'] = torch.from_numpy(x)", True),
        ("s = net.state_dict(); s['a'] = torch.randn(3, 3) * 2", True),
        ("s = dict(make(1))", True),
        ("s = {k: torch.randn(3) for k in x}", True),
        ("s = net.state_dict()", False),
        ("s = {k: v + 0.0 * torch.randn(v.shape) for k, v in net.state_dict().items()}", False),
        ("s = {k: v.add(torch.randn(v.shape)) for k, v in net.state_dict().items()}", False),
        ("s = {k: torch.add(v, torch.randn(v.shape)) for k, v in net.state_dict().items()}", False),
        ("s = {k: torch.randn(3).mul(2) for k in x}", True),
        ("s = {k: v.clone() for k, v in net.state_dict().items()}", False),
        ("s = torch.load('x')", False),
        ("s = {}; s['a'] = v * 2", False),
        ("s = other(1)", False),
        ("t = {'a': torch.tensor([1.0])}; s = x", False),
    ],
)
def test_which_states_a_program_makes(lines, made):
    source = f"def make(n):\n    return {{'a': torch.eye(n)}}\n\ndef other(n):\n    return n\n\ndef run(net, x):\n    {lines}\n    s\n"
    tree = ast.parse(source)
    run = tree.body[-1]
    assert is_made(run.body[-1].value, [tree, run]) is made


NEW_HEADS = """import torch
from torch import nn


def pair(out=5):
    return nn.Sequential(nn.Linear(2, 2), nn.Linear(2, out))


def head():
    a, b = pair(3), pair()
    sd = a.state_dict()
    sd["1.weight"], sd["1.bias"] = torch.arange(10.0).reshape(5, 2), torch.zeros(5)
    b.load_state_dict(sd)
    x = torch.arange(4.0).reshape(2, 2)
    return torch.cat([a[0](x) - b[0](x), b[1](x) * 0], 1)


def copied():
    a, b = pair(3), pair()
    sd = {k: v.clone() for k, v in a.state_dict().items()}
    sd["1.weight"] = torch.arange(10.0).reshape(5, 2)
    sd["1.bias"] = torch.zeros(5)
    b.load_state_dict(sd)
    x = torch.arange(4.0).reshape(2, 2)
    return torch.cat([a[0](x) - b[0](x), b[1](x) * 0], 1)


def spread():
    a, b = pair(3), pair()
    b.load_state_dict({**a.state_dict(), "1.weight": torch.ones(5, 2) * torch.tensor(1.0), "1.bias": torch.zeros(5)})
    x = torch.arange(4.0).reshape(2, 2)
    return torch.cat([a[0](x) - b[0](x), b[1](x) * 0], 1)


def loop():
    a, b = pair(3), pair()
    sd = dict(a.state_dict())
    for k in ("1.weight",):
        sd[k] = torch.arange(10.0).reshape(5, 2)
    sd["1.bias"] = torch.zeros(5)
    b.load_state_dict(sd)
    x = torch.arange(4.0).reshape(2, 2)
    return torch.cat([a[0](x) - b[0](x), b[1](x) * 0], 1)


def noise():
    a, b = pair(2), pair(2)
    b.load_state_dict({k: v + 0.0 * torch.randn(v.shape) for k, v in a.state_dict().items()})
    x = torch.arange(4.0).reshape(2, 2)
    return a(x) - b(x)


for each in (head, copied, spread, loop, noise):
    try:
        print(each.__name__, [abs(round(value, 3)) for value in each().flatten().tolist()])
    except RuntimeError as error:
        print(each.__name__, "refused", str(error)[:20])
"""


def test_a_new_head_turns_no_weight_that_a_state_gave(tmp_path):
    pytest.importorskip("paddle")
    pytest.importorskip("torch")
    (tmp_path / "source.py").write_text(NEW_HEADS, encoding="utf-8")
    assert not convert_code(tmp_path / "source.py", tmp_path / "port.py").left
    expected = _printed(tmp_path, "source.py")
    expected[3] = "loop refused ['0.weight']: square"
    assert _printed(tmp_path, "port.py") == expected


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("s = {'a': torch.tensor([1.0])}", ""),
        ("s = {}; s['a'] = torch.randn(3); s['b'] = torch.zeros(2)", ""),
        ("s = net.state_dict(); s['a'] = torch.randn(3)", ", 'a'"),
        ("s = torch.load('x'); s['a'] = torch.randn(3); s['b'] = torch.randn(3)", ", 'a', 'b'"),
        ("s = {**net.state_dict(), 'a': torch.randn(3)}", ", 'a'"),
        ("s = net.state_dict(); s[x] = torch.randn(3)", ", None"),
        ("s = {}; s['b'] = x; s['a'] = torch.randn(3)", ", None"),
        ("s = {}; s['b'] = other(x)['b']; s['a'] = torch.randn(3)", ", 'a'"),
        ("s = {}; s['b'] = other(x)[0]; s['a'] = torch.randn(3)", ", None"),
        ("w = torch.zeros(2, 2); w[0, 1] = 5; s = {'a': w}", ""),
        ("s = dict(net.state_dict(), a=torch.stack([torch.randn(2), torch.randn(2)]))", ", 'a'"),
        ("s = dict([('a', torch.randn(2)), ('b', make(1)['a'])])", ""),
        ("s = {}; s.update({'a': torch.randn(2)}); s |= {'b': torch.randn(2)}", ""),
        ("s = {}; s.update(net.state_dict(), a=torch.randn(2))", ", 'a'"),
        ("s = {'a': x}", ", None"),
        ("s = {k: kept(v) for k, v in x.items()}", ""),
        ("s = {k: v.cpu() for k, v in x.items()}", None),
        ("s = {k: torch.stack([each[k] for each in x]).mean(0) for k in x[0]}", None),
        ("s = {}\n    for k, v in net.named_parameters():\n        s[k] = torch.zeros_like(v)\n        s[k] += v", None),
        ("s = {k: torch.zeros(v.shape) + v for k, v in net.state_dict().items()}", None),
        ("s = {'a': torch.cat([net.state_dict()['a'], torch.randn(1, 3)])}", ", None"),
        ("s = {'a': net.a.weight.detach().clone()}", ""),
        ("s = {'a': net.a.bias * 2}", None),
        ("s = {}; s['a'] = s['a'] * 2", None),
        ("s = make(1); s['a'] = torch.randn(3)", ""),
        ("s = net.state_dict(); s['a'] = torch.randn(3); s['a'] = x", ", None"),
    ],
)
def test_which_tensors_of_a_state_a_program_makes(lines, told):
    functions = "def make(n):\n    return {'a': torch.eye(n)}\n\ndef other(n):\n    return n\n\ndef kept(v):\n    return torch.tensor(v)\n"
    tree = ast.parse(f"{functions}\ndef run(net, x):\n    {lines}\n    s\n")
    run = tree.body[-1]
    assert is_made(run.body[-1].value, [tree, run]) is (told is not None)
    assert told is None or made_keys(run.body[-1].value, [tree, run]) == told


def test_what_calls_give_a_function_tells_which_of_its_states_are_made():
    functions = "def load(net, w, sd):\n    s = {'a': w}\n    s\n    sd\n"
    for given, told in (("torch.randn(2), net.state_dict()", [True, False]), ("net.state_dict()['a'], {'a': torch.eye(2)}", [False, True])):
        tree = ast.parse(f"{functions}load(net, {given})\n")
        run = tree.body[0]
        assert [is_made(each.value, [tree, run]) for each in run.body[1:]] == told


PUT_TOGETHER = """import torch
from collections import OrderedDict
from torch import nn

W = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
B = torch.zeros(2)


def load(net, w):
    net.load_state_dict({"weight": w, "bias": B})


def shown():
    net = nn.Linear(2, 2)
    load(net, W)
    return net


def pairs():
    net = nn.Linear(2, 2)
    net.load_state_dict(OrderedDict([("weight", W), ("bias", B)]))
    return net


def updated():
    net, state = nn.Linear(2, 2), {}
    state.update({"weight": W, "bias": B})
    net.load_state_dict(state_dict=state)
    return net


def of_a_layer():
    a, net = nn.Linear(2, 2), nn.Linear(2, 2)
    w = a.weight.detach().clone()
    net.load_state_dict({"weight": w, "bias": B})
    return net


for each in (shown, pairs, updated, of_a_layer):
    try:
        print(each.__name__, each()(torch.tensor([[1.0, 0.0]])).tolist())
    except RuntimeError as error:
        print(each.__name__, "refused", str(error)[:20])
"""


def test_square_weights_by_names_and_keywords_raise(tmp_path):
    pytest.importorskip("paddle")
    (tmp_path / "source.py").write_text(PUT_TOGETHER, encoding="utf-8")
    assert not convert_code(tmp_path / "source.py", tmp_path / "port.py").left
    assert _printed(tmp_path, "port.py") == [f"{each} refused ['weight']: square w" for each in ("shown", "pairs", "updated", "of_a_layer")]
