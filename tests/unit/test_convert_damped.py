"""Dampened momentum, plateaus, weights that optimizers are given, norms with second derivatives, and shapes that are spread."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from paralign.port.drafts.converted import convert_code
from paralign.port.edits.ledger import Fate

PROGRAM = """import json
import torch
from torch import nn


def layer():
    made = nn.Linear(2, 3)
    with torch.no_grad():
        made.weight.copy_(torch.arange(6.0).reshape(3, 2) / 6)
        made.bias.fill_(0.1)
    return made


def trained(n, optimizer, schedule=None):
    for _ in range(4):
        optimizer.zero_grad()
        (n(torch.tensor([[1.0, 2.0], [0.5, -1.0]])) ** 2).sum().backward()
        optimizer.step()
        if schedule is not None:
            schedule.step()
    return n(torch.tensor([[1.0, 2.0]])).flatten().tolist() + [each["lr"] for each in optimizer.param_groups]


found = []
n = layer()
found.append(trained(n, torch.optim.SGD(n.parameters(), lr=0.02, momentum=0.8, dampening=0.1, weight_decay=0.01)))
n = layer()
optimizer = torch.optim.SGD([{"params": [n.weight], "weight_decay": 0.1}, {"params": n.bias, "lr": 0.01}], lr=0.02, momentum=0.8, dampening=0.3)
found.append(trained(n, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5)))
n = layer()
found.append(trained(n, torch.optim.SGD([n.weight, n.bias], lr=0.02, momentum=0.0, dampening=0.3)))
none, plain = [0.0, 0.4]  # written as variables: what is asked for is known when it runs
for dampening, nesterov in ((none, True), (plain, False)):
    n = layer()
    found.append(trained(n, torch.optim.SGD(n.parameters(), lr=0.02, momentum=0.8, dampening=dampening, nesterov=nesterov)))
    n = layer()
    optimizer = torch.optim.SGD(
        [{"params": [n.weight], "momentum": 0.5}, {"params": [n.bias], "lr": 0.01}], lr=0.02, momentum=0.8, dampening=dampening, nesterov=nesterov
    )
    found.append(trained(n, optimizer) + [each["momentum"] for each in optimizer.param_groups])
    n = layer()
    optimizer = torch.optim.SGD(n.parameters(), lr=0.02, momentum=0.8, dampening=dampening, nesterov=nesterov)
    found.append(trained(n, optimizer, torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=5)))
n = layer()
found.append(trained(n, torch.optim.AdamW(params=[n.weight], lr=0.1)))
a = torch.tensor([[1.0, 2.0], [3.0, 0.0]], requires_grad=True)


def length(x):
    return x.norm(dim=1)


for norm in (length, lambda x: x.norm(2, 0), lambda x: torch.norm(x), lambda x: torch.linalg.vector_norm(x, dim=-1, keepdim=True)):
    y = norm(a)
    first = torch.autograd.grad((y**3).sum(), a, create_graph=True)[0]
    found.append(y.flatten().tolist() + torch.autograd.grad((first**2).sum(), a)[0].flatten().tolist())
z = torch.arange(24.0).reshape(2, 4, 3).sin().requires_grad_()
for norm in (nn.GroupNorm(2, 4), nn.GroupNorm(num_groups=4, num_channels=4, affine=False), nn.GroupNorm(1, 4, eps=1e-3)):
    y = norm(z)
    first = torch.autograd.grad(y.sin().sum(), z, create_graph=True)[0]
    found.append(y.flatten().tolist() + torch.autograd.grad((first**2).sum(), z)[0].flatten().tolist())
zero = torch.zeros(2, requires_grad=True)
found.append(torch.autograd.grad(zero.norm(), zero, create_graph=True)[0].tolist())
x = torch.tensor([1.0, 2.0, 3.0])
close = torch.isclose(x[:, None], x), torch.isclose(x, torch.tensor(2.0)), torch.isclose(x, x + 1e-7, rtol=0.0, atol=1e-6)
found += [each.float().flatten().tolist() for each in close]
print(json.dumps(found))
"""


def test_dampened_momentum_norms_and_the_rest_are_those_of_pytorch(tmp_path):
    pytest.importorskip("paddle")
    pytest.importorskip("torch")
    source, port = tmp_path / "damped.py", tmp_path / "damped_port.py"
    source.write_text(PROGRAM, encoding="utf-8")
    ledger = convert_code(source, port)
    assert [each for each in ledger.places if each.fate is Fate.BY_HAND] == []
    ours, theirs = (subprocess.run([sys.executable, each], capture_output=True, text=True, check=False) for each in (port, source))
    assert ours.returncode == 0, ours.stderr
    for found, expected in zip(json.loads(ours.stdout), json.loads(theirs.stdout), strict=True):
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-5)


PLATEAU = """import json
import torch
from torch import nn

found = []
for groups, settings in (
    (False, {"cooldown": 1}),
    (False, {"min_lr": [0.03]}),
    (True, {"min_lr": [1e-3, 6e-3]}),
    (True, {"mode": "max", "threshold_mode": "abs", "threshold": 0.4}),
):
    a, b = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([{"params": [a]}, {"params": [b], "lr": 0.01}] if groups else [a], lr=0.1)
    s = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, factor=0.5, **settings)
    for value in (1.0, 2.0, float("nan"), 1.5, 0.2, 0.3):
        s.step(value)
        found.append([s.best, s.num_bad_epochs, s.cooldown_counter, s.last_epoch, *s.get_last_lr()])
    found.append([s.factor, s.patience, s.threshold, s.eps, s.in_cooldown, *s.min_lrs, s.mode, s.threshold_mode])
    s.factor, s.min_lrs = 0.1, [0.002] * len(s.min_lrs)
    s.step(9.0 if s.mode == "min" else -9.0)
    s.step(9.5 if s.mode == "min" else -9.5)
    found.append(s.get_last_lr())
print(json.dumps(found))
"""


def test_a_plateau_has_its_attributes_and_groups_their_lowest_rates(tmp_path):
    pytest.importorskip("paddle")
    pytest.importorskip("torch")
    source, port = tmp_path / "plateau.py", tmp_path / "plateau_port.py"
    source.write_text(PLATEAU, encoding="utf-8")
    convert_code(source, port)
    ours, theirs = (subprocess.run([sys.executable, each], capture_output=True, text=True, check=False) for each in (port, source))
    assert ours.returncode == 0, ours.stderr
    for found, expected in zip(json.loads(ours.stdout), json.loads(theirs.stdout), strict=True):
        numbers = [[each for each in row if not isinstance(each, str)] for row in (found, expected)]
        assert numbers[0] == pytest.approx(numbers[1], rel=1e-5)
        assert [each for each in found if isinstance(each, str)] == [each for each in expected if isinstance(each, str)]


def test_a_weight_that_something_else_keeps_is_left_by_hand(tmp_path):
    program = "import torch\nfrom torch import nn\n\n\ndef kept(n):\n    return [n.weight], {'params': [n.weight]}\n"
    (tmp_path / "kept.py").write_text(program, encoding="utf-8")
    ledger = convert_code(tmp_path / "kept.py", tmp_path / "port.py")
    assert any(each.fate is Fate.BY_HAND and each.name == "torch.nn.Linear.weight" for each in ledger.places)
