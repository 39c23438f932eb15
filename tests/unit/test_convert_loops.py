"""Loops over a model's parameters, which see weights as PyTorch lays them out."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import pytest

from paralign.port.drafts.converted import convert_code
from paralign.port.edits.ledger import Fate

HEAD = """import json
import math

import numpy as np
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, inner=3, out=2):
        super().__init__()
        self.own = nn.Parameter(torch.zeros(2, 3))
        self.a = nn.Linear(3, inner)
        self.conv = nn.Conv1d(2, 3, 2)
        self.cell = nn.GRUCell(2, 3)
        self.b = nn.Linear(inner, out)

    def forward(self, x):
        return self.b(torch.tanh(self.a(x)))


def draw(rng, shape):
    return rng.normal(size=shape)


TABLE = {(3, 3): torch.arange(9.0).reshape(3, 3)}


def fetch(shape):
    return TABLE.get(tuple(shape), torch.zeros(1))


def fan(shape):
    return math.sqrt(1.0 / shape[-1]) * torch.arange(float(math.prod(shape))).reshape(*shape)


def show(net):
    print(json.dumps(net(torch.arange(12.0).reshape(4, 3) / 10).flatten().tolist()))
"""

#: loops that are written in PyTorch's layout
LAID_OUT = {
    "copied": "with torch.no_grad():\n    for name, p in net.named_parameters():\n        p.copy_(torch.from_numpy(rng.normal(size=p.shape)))",
    "past the gradient": "for p in net.parameters():\n    p.data.copy_(torch.tensor(rng.uniform(-1, 1, tuple(p.shape))))",
    "set": "for n, p in net.named_parameters():\n    p.data = torch.from_numpy(rng.normal(size=tuple(p.shape)).astype(np.float32))",
    "by the fan": (
        "with torch.no_grad():\n    for name, p in sorted(net.named_parameters()):\n        if p.dim() >= 2:\n"
        "            bound = math.sqrt(6.0 / sum(p.shape[-2:]))\n"
        "            p.copy_(torch.from_numpy(rng.uniform(-bound, bound, tuple(p.shape))).to(p.dtype))\n"
        "        elif 'bias' in name:\n            p.fill_(0.1)\n        else:\n            nn.init.zeros_(p)"
    ),
    "by a function": "for i, p in enumerate(net.parameters()):\n    p.data.copy_(torch.from_numpy(draw(np.random.default_rng(i), p.shape)))",
    "added": "with torch.no_grad():\n    for p in net.parameters():\n        noise = torch.from_numpy(rng.normal(size=p.shape)).float()\n        p.zero_().add_(noise, alpha=0.5)",
    "by places": (
        "with torch.no_grad():\n    for p in net.parameters():\n        value = torch.arange(p.numel(), dtype=torch.float32).view(p.shape)\n"
        "        p.copy_(value / 10)"
    ),
    "by a formula": "with torch.no_grad():\n    for p in net.parameters():\n        p.copy_(fan(p.shape))",
    "by a scale": "std = 0.1 * 2\nwith torch.no_grad():\n    for p in net.parameters():\n        p.copy_(torch.from_numpy(rng.normal(0, std, size=p.shape)))",
    "read in a row": "total = 0.0\nfor p in net.parameters():\n    total += p.data.view(-1)[:2].sum().item()\nnn.init.constant_(net.b.bias, total / 10)",
}

#: loops that are left as they are, with a condition where they depend on the layout
LEFT = {
    "looked up": "kept = {n: p.detach().clone() for n, p in net.named_parameters()}\nwith torch.no_grad():\n    for n, p in net.named_parameters():\n        p.copy_(kept[n] * 2)",
    "from a row": (
        "flat = torch.cat([p.detach().flatten() for p in net.parameters()]) * 2\nat = 0\nwith torch.no_grad():\n    for p in net.parameters():\n"
        "        p.copy_(flat[at : at + p.numel()].view(p.shape))\n        at += p.numel()"
    ),
    "kept masks": (
        "masks = {}\nfor n, p in net.named_parameters():\n    masks[n] = torch.ones(p.shape)\n"
        "with torch.no_grad():\n    for n, p in net.named_parameters():\n        p.mul_(masks[n])"
    ),
    "all alike": "with torch.no_grad():\n    for p in net.parameters():\n        p.mul_(2).clamp_(-0.5, 0.5)",
    "one after another": "values = iter([p.detach() * 2 for p in net.parameters()])\nwith torch.no_grad():\n    for p in net.parameters():\n        p.copy_(next(values))",
    "averages": "kept = [p.detach().clone() * 3 for p in net.parameters()]\nwith torch.no_grad():\n    for p, e in zip(net.parameters(), kept):\n        e.mul_(0.9).add_(p * 0.1)\n    for p, e in zip(net.parameters(), kept):\n        p.copy_(e)",
    "averages by interpolation": "kept = [p.detach().clone() * 3 for p in net.parameters()]\nwith torch.no_grad():\n    for e, p in zip(kept, net.parameters()):\n        e.lerp_(p.data, 0.25)\n    for p, e in zip(net.parameters(), kept):\n        p.data.copy_(e)",
    "added in place": "kept = [p.detach().clone() * 3 for p in net.parameters()]\nfor p, e in zip(net.parameters(), kept):\n    e += p.data * 2\nfor p, e in zip(net.parameters(), kept):\n    p.data = e",
    "steps": "for part in (net.a, net.b):\n    found = torch.autograd.grad(net(torch.ones(2, 3)).pow(2).sum(), list(part.parameters()))\n    for p, g in zip(part.parameters(), found):\n        p.data = p.data * 0.99 - 0.05 * g",
    "steps by the gradient": "net(torch.ones(2, 3)).pow(2).sum().backward()\nfor p in net.parameters():\n    if p.grad is not None:\n        p.data = p.data - 0.1 * p.grad",
    "steps by the sign": "net(torch.ones(2, 3)).pow(2).sum().backward()\nwith torch.no_grad():\n    for p in net.parameters():\n        if p.grad is not None:\n            p.sub_(0.01 * p.grad.sign())",
    "distances": "kept = [p.detach().clone() * 2 for p in net.parameters()]\ntotal = 0.0\nfor p, s in zip(net.parameters(), kept):\n    d = p * 3 - s\n    total += d[0].sum().item() if p.dim() < 2 else (p - s).norm().item()\nnn.init.constant_(net.b.bias, total / 10)",
    "norms": "net(torch.ones(2, 3)).pow(2).sum().backward()\ntotal = 0.0\nfor p in net.parameters():\n    if p.grad is not None:\n        total += p.grad.view(-1).pow(2).sum().item() + p.data.norm(2).item()\nnn.init.constant_(net.b.bias, total / 10)",
    "there and back": "kept = []\nwith torch.no_grad():\n    for p in net.parameters():\n        e = p * 0.5\n        kept.append(e)\n        p.add_(e)\n    for p, e in zip(net.parameters(), kept):\n        p.sub_(e)",
    "own attributes": "for p in net.parameters():\n    p.ema = p.detach().clone() * 2\nfor p in net.parameters():\n    p.data = p.data * 0.5 + p.ema",
    "means of models": "with torch.no_grad():\n    for p, *more in zip(net.parameters(), other.parameters()):\n        p.copy_(sum(more) / 2 + p)",
    "side by side": "with torch.no_grad():\n    for p, q in zip(net.parameters(), other.parameters()):\n        p.copy_(q)",
}

START = LAID_OUT["copied"].replace("net", "each")


def _program():
    """A program that runs each loop on a model with a square weight and on one without."""
    parts = [HEAD, "\n\ndef start(each, rng):\n" + textwrap.indent(START, "    ") + "\n"]
    for number, lines in enumerate((LAID_OUT | LEFT).values()):
        parts.append(f"\n\ndef loop_{number}(net, other, rng):\n" + textwrap.indent(lines, "    ") + "\n    show(net)\n")
    calls = "".join(
        f"    start(net, rng)\n    start(other, rng)\n    loop_{number}(net, other, rng)\n" for number in range(len(LAID_OUT | LEFT))
    )
    parts.append(f"\n\nrng = np.random.default_rng(0)\nfor net, other in ((Net(), Net()), (Net(4, 3), Net(4, 3))):\n{calls}")
    return "".join(parts)


def _printed(path):
    ended = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)
    assert not ended.returncode, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def _converted(tmp_path, source):
    (tmp_path / "in.py").write_text(source)
    return convert_code(tmp_path / "in.py", tmp_path / "out.py", force=True)


@pytest.mark.paddle
def test_loops_over_parameters_give_what_they_give_in_pytorch(tmp_path):
    _converted(tmp_path, _program())
    expected, found = _printed(tmp_path / "in.py"), _printed(tmp_path / "out.py")
    assert len(expected) == 2 * len(LAID_OUT | LEFT)
    for number, (kind, one, two) in enumerate(zip([*(LAID_OUT | LEFT)] * 2, expected, found, strict=True)):
        assert two == pytest.approx(one, abs=1e-4), (kind, number)


@pytest.mark.parametrize("kind", LAID_OUT)
def test_a_loop_that_is_laid_out_tells_no_condition(tmp_path, kind):
    ledger = _converted(tmp_path, HEAD + "\nrng = np.random.default_rng(0)\nnet = Net()\n" + LAID_OUT[kind] + "\n")
    told = [each for each in ledger.places if each.name in ("torch.nn.Linear.weight", "torch.Tensor.copy_")]
    assert told
    assert [each for each in told if each.fate is Fate.CONDITION] == []


@pytest.mark.parametrize(
    "lines",
    [
        "for n, p in net.named_parameters():\n    found[n] = torch.rand(p.shape)",
        "for n, p in net.named_parameters():\n    p.data.copy_(torch.from_numpy(found[n]))",
        "for p in net.parameters():\n    found.append(p.view(-1)[0])",
        "for p in net.parameters():\n    w = p.data\n    w.copy_(torch.rand(p.shape))",
        "for p, q in zip(net.parameters(), found):\n    p.data.copy_(torch.from_numpy(q).view(p.shape))",
        "for p in net.parameters():\n    noise = torch.rand(p.shape)\nprint(noise.shape)",
        "for p in net.parameters():\n    p.data.copy_(torch.tensor(found))",
        "for p in net.parameters():\n    p.data.copy_(fetch(p.shape))",
        "for p in net.parameters():\n    p.data.copy_(unknown(p.shape))",
        "for p in net.parameters():\n    flat = p.data.view(-1)\n    for i in range(flat.numel()):\n        flat[i] = 0.1 * i",
        "noise = torch.rand(3, 3)\nfor p in net.parameters():\n    p.data.copy_(p * noise)",
        "for p, s in zip(net.parameters(), found):\n    p.data = s + 0.5 * torch.rand(p.shape)",
        "for p, g in zip(net.parameters(), found):\n    p.data = p.data * 0.99 - 0.5 * g",
        "for p, e in zip(net.parameters(), found):\n    torch.add(e, p * 0.1, out=e)",
        "total = found\nfor p in net.parameters():\n    total += p.data[0]",
        "for i, (p, e) in enumerate(zip(net.parameters(), found)):\n    e.copy_(0.9 * e + 0.1 * p)",
    ],
)
def test_a_loop_whose_values_lie_elsewhere_is_left_as_it_is(tmp_path, lines):
    _converted(tmp_path, HEAD + "\nnet = Net()\nfound = make()\n" + lines + "\n")
    assert "_in_layout(" not in (tmp_path / "out.py").read_text()


@pytest.mark.paddle
def test_a_tied_weight_is_drawn_as_it_lies(tmp_path):
    tied = "net = nn.Module()\nnet.table = nn.Embedding(4, 3)\nnet.head = nn.Linear(3, 4, bias=False)\nnet.head.weight = net.table.weight\n"
    source = HEAD + f"\nrng = np.random.default_rng(0)\n{tied}{LAID_OUT['copied']}\n"
    source += "print(json.dumps(net.head(torch.ones(2, 3)).flatten().tolist() + net.table(torch.tensor([1])).flatten().tolist()))\n"
    _converted(tmp_path, source)
    assert _printed(tmp_path / "out.py")[0] == pytest.approx(_printed(tmp_path / "in.py")[0], abs=1e-4)


@pytest.mark.paddle
def test_recurrent_layers_move_with_their_model(tmp_path):
    lines = (
        'for kind in ("LSTM", "GRU", "RNN"):\n    net = nn.Sequential(getattr(nn, kind)(2, 3)).to("cpu")\n    for p in net.parameters():\n'
        "        nn.init.constant_(p, 0.3)\n    print(net.double()[0](torch.ones(2, 1, 2).double())[0].sum().item())\n"
    )
    _converted(tmp_path, HEAD + "\n\n" + lines)
    assert _printed(tmp_path / "out.py") == pytest.approx(_printed(tmp_path / "in.py"), abs=1e-6)


@pytest.mark.paddle
def test_a_row_of_a_layers_weight_is_asked(tmp_path):
    lines = (
        "for m in nn.Sequential(nn.Conv2d(2, 3, 2), nn.Linear(4, 3)).modules():\n    if isinstance(m, (nn.Conv2d, nn.Linear)):\n"
        "        m.weight.data.copy_(torch.arange(float(m.weight.numel())).view(m.weight.shape))\n"
        "        print(json.dumps([m.weight[0].numel(), m.weight[0].sum().item(), list(m.weight[1].shape), m.weight[:, 0].mean().item()]))\n"
    )
    ledger = _converted(tmp_path, HEAD + "\n\n" + lines)
    assert Fate.BY_HAND not in [each.fate for each in ledger.places]
    assert _printed(tmp_path / "out.py") == _printed(tmp_path / "in.py")
