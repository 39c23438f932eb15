"""Optimizers, schedules of groups and laws of several axes: the port gives what the original gives."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from paralign.port.drafts.converted import convert_code
from paralign.port.edits.ledger import Fate

HEAD = """import json

import torch
from torch import nn
from torch.distributions import MultivariateNormal, kl_divergence
from torch.optim import lr_scheduler as rates


def made():
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2))
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.arange(float(p.numel())).view(p.shape) / 7)
    return net


def groups(net, kind):
    return kind([{"params": net[0].parameters(), "lr": 0.1}, {"params": net[2].parameters(), "weight_decay": 0.1}], lr=0.05)


def trained(net, opt, sched=None, given=None):
    for i in range(7):
        opt.zero_grad()
        net(torch.ones(4, 2) * i).pow(2).sum().backward()
        opt.step()
        if given is not None:
            sched.step(given(i))
        elif sched is not None:
            sched.step()
        print(json.dumps([g["lr"] for g in opt.param_groups]))
    print(json.dumps([p.sum().item() for p in net.parameters()]))
"""

PROGRAMS = {
    "adagrad": "net = made()\ntrained(net, torch.optim.Adagrad(net.parameters(), lr=0.1, weight_decay=0.01, initial_accumulator_value=0.1))",
    "adagrad by its name, and a rule a group": (
        "for name in ['Adagrad']:\n    net = made()\n    opt = groups(net, getattr(torch.optim, name))\n"
        "    sched = rates.LambdaLR(opt, lr_lambda=[lambda s: min(1.0, (s + 1) / 4), lambda s: 0.95**s])\n"
        "    trained(net, opt, sched)\n    print(json.dumps(sched.get_last_lr()))"
    ),
    "one rule in a list": "net = made()\nopt = torch.optim.SGD(net.parameters(), lr=0.05)\ntrained(net, opt, rates.LambdaLR(opt, [lambda s: 0.5**s]))",
    "restarts": "net = made()\nopt = groups(net, torch.optim.SGD)\ntrained(net, opt, rates.CosineAnnealingWarmRestarts(opt, T_0=2, T_mult=2, eta_min=1e-3))",
    "restarts by epochs": (
        "net = made()\nopt = groups(net, torch.optim.SGD)\n"
        "trained(net, opt, rates.CosineAnnealingWarmRestarts(opt, T_0=2, eta_min=1e-3), lambda i: i / 3)"
    ),
    "a cosine": "net = made()\nopt = groups(net, torch.optim.SGD)\ntrained(net, opt, rates.CosineAnnealingLR(opt, 5, eta_min=1e-3))",
    "a plateau": "net = made()\nopt = groups(net, torch.optim.SGD)\ntrained(net, opt, rates.ReduceLROnPlateau(opt, patience=1, min_lr=0.02), lambda i: 1.0)",
    "a highest rate a group": (
        "net = made()\nopt = groups(net, torch.optim.NAdam)\n"
        "trained(net, opt, rates.OneCycleLR(opt, [0.1, 0.02], total_steps=9, pct_start=0.4, cycle_momentum=False))"
    ),
    "one highest rate for groups of other rates": (
        "net = made()\nopt = groups(net, torch.optim.AdamW)\nsched = rates.OneCycleLR(opt, 0.02, total_steps=9)\n"
        "trained(net, opt, sched)\nprint(json.dumps([g['initial_lr'] for g in opt.param_groups]))"
    ),
    "cycles of groups": (
        "net = made()\nopt = groups(net, lambda each, lr: torch.optim.SGD(each, lr=lr, momentum=0.9))\n"
        "trained(net, opt, rates.CyclicLR(opt, [0.01, 0.02], [0.03, 0.05], step_size_up=2, mode='triangular2'))"
    ),
    "a state of cycles of groups": (
        "opt = groups(made(), torch.optim.Adam)\nsched = rates.OneCycleLR(opt, [0.1, 0.02], total_steps=9)\nopt.step()\nsched.step()\n"
        "net = made()\nother = groups(net, torch.optim.Adam)\nagain = rates.OneCycleLR(other, [0.1, 0.02], total_steps=9)\n"
        "again.load_state_dict(sched.state_dict())\nagain.step()\nprint(json.dumps([again.get_last_lr(), again.last_epoch]))"
    ),
    "a state": (
        "opt = groups(made(), torch.optim.SGD)\nsched = rates.CosineAnnealingLR(opt, 5, eta_min=1e-3)\nopt.step()\nsched.step()\nsched.step()\n"
        "net = made()\nother = groups(net, torch.optim.SGD)\nagain = rates.CosineAnnealingLR(other, 5, eta_min=1e-3)\n"
        "again.load_state_dict(sched.state_dict())\nprint(json.dumps(again.get_last_lr()))"
    ),
    "divergence": (
        "def law(at, loc):\n    root = torch.tensor([[1.0, 0.0], [0.3, 0.5]]) * at\n"
        "    return MultivariateNormal(loc, scale_tril=root)\n"
        "loc = torch.tensor([0.7, 1.0], requires_grad=True)\none, two = law(0.7, loc), law(1.3, torch.ones(2))\nwide = MultivariateNormal(torch.zeros(3, 2), torch.eye(2))\n"
        "for p, q in ((one, two), (one, wide), (wide, two)):\n    print(json.dumps(kl_divergence(p, q).reshape(-1).tolist()))\n"
        "kl_divergence(one, two).backward()\nprint(json.dumps(loc.grad.tolist()))"
    ),
    "a base left out": (
        "class Base(nn.Module):\n    def __init__(self, n):\n        super().__init__()\n\n\n"
        "class Own(Base):\n    def __init__(self):\n        nn.Module.__init__(self)\n        self.a = nn.Linear(2, 1)\n\n\n"
        "print(json.dumps([list(p.shape) for p in Own().a.bias[None]]))"
    ),
}


def _printed(path):
    ended = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)
    assert not ended.returncode, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


@pytest.mark.paddle
def test_the_port_gives_what_the_original_gives(tmp_path):
    (tmp_path / "in.py").write_text(
        HEAD + "\n\n" + "\n\n\n".join(f"print(json.dumps({kind!r}))\n{lines}" for kind, lines in PROGRAMS.items()) + "\n"
    )
    assert not convert_code(tmp_path / "in.py", tmp_path / "out.py").left
    expected, found = _printed(tmp_path / "in.py"), _printed(tmp_path / "out.py")
    assert len(found) == len(expected) > len(PROGRAMS)
    kind = ""
    for one, two in zip(expected, found, strict=True):
        if isinstance(one, str):
            kind = one
            assert two == one
        else:
            assert _numbers(two) == pytest.approx(_numbers(one), abs=1e-4), kind


def _numbers(value):
    return [inner for each in value for inner in _numbers(each)] if isinstance(value, list) else [value]


@pytest.mark.paddle
@pytest.mark.parametrize(
    "lines",
    [
        "rates.OneCycleLR(opt, [0.1, 0.2, 0.3], total_steps=9)",
        "rates.CyclicLR(opt, 0.1, 0.2, base_momentum=[0.8, 0.7], max_momentum=[0.9, 0.95])",
        "rates.ExponentialLR(opt, 0.9)\nrates.OneCycleLR(opt, [0.1, 0.2], total_steps=9)",
    ],
)
def test_cycles_that_paddle_cannot_follow_stop(tmp_path, lines):
    made = "opt = groups(made(), lambda each, lr: torch.optim.SGD(each, lr=lr, momentum=0.9))\n"
    (tmp_path / "in.py").write_text(HEAD + "\n\n" + made + lines + "\n")
    convert_code(tmp_path / "in.py", tmp_path / "out.py")
    ended = subprocess.run([sys.executable, str(tmp_path / "out.py")], capture_output=True, text=True, check=False)
    assert ended.returncode
    assert "a rate for each group" in ended.stderr or "NotImplementedError" in ended.stderr


@pytest.mark.parametrize("lines", ["torch.optim.Adagrad(made().parameters(), lr_decay=0.1)"])
def test_a_rate_that_decays_within_the_optimizer_is_by_hand(tmp_path, lines):
    (tmp_path / "in.py").write_text(HEAD + "\n\n" + lines + "\n")
    ledger = convert_code(tmp_path / "in.py", tmp_path / "out.py")
    assert [each.name for each in ledger.places if each.fate is Fate.BY_HAND] == ["torch.optim.Adagrad"]
