"""Optimizers of the program's own: the port's steps are those of the original, or it stops."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from paralign.port.drafts.converted import convert_code
from paralign.port.edits.ledger import Fate

HEAD = """import json
import math

import torch
from torch import nn
from torch.optim import Optimizer, lr_scheduler


def made():
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2))
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.arange(float(p.numel())).sin().sum() / 7)
    return net


"""
PROGRAM = (
    HEAD
    + '''class Lamb(Optimizer):
    """Adam whose step is as long as the weight, where a group wants that."""

    def __init__(self, params, lr=1e-2, betas=(0.9, 0.99), eps=1e-6, weight_decay=0.0, trust=True):
        if lr < 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, trust=trust))

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("trust", False)

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if len(state) == 0:
                    state["step"] = 0
                    state["exp_avg"] = torch.zeros_like(p, memory_format=torch.preserve_format)
                    state["exp_avg_sq"] = torch.zeros_like(p.data)
                exp_avg, exp_avg_sq = state["exp_avg"], state["exp_avg_sq"]
                state["step"] += 1
                exp_avg.mul_(beta1).add_(p.grad, alpha=1 - beta1)
                exp_avg_sq.mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                fix = math.sqrt(1 - beta2 ** state["step"]) / (1 - beta1 ** state["step"])
                update = exp_avg.mul(fix).div_(exp_avg_sq.sqrt().add_(group["eps"]))
                if group["weight_decay"] and p.dim() > 1:
                    update.add_(p, alpha=group["weight_decay"])
                ratio = 1.0
                if group["trust"]:
                    long, far = p.norm(2).clamp(0, 10), update.norm()
                    ratio = torch.where((long > 0) & (far > 0), long / far, torch.ones_like(long)).item()
                p.add_(update, alpha=-group["lr"] * ratio)
        return loss


def plain(p, d_p, rate):
    p.data.add_(d_p, alpha=-rate)


class Plain(Optimizer):
    def __init__(self, params, lr):
        super(Plain, self).__init__(params, {"lr": lr})

    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    plain(p, p.grad.data, group["lr"])


def trained(net, opt, sched=None, steps=4):
    for i in range(steps):
        def closure():
            opt.zero_grad()
            loss = (net(torch.tensor([[1.0, 2.0], [0.5, -1.0]])) - 1).pow(2).sum()
            loss.backward()
            return loss
        print(json.dumps(opt.step(closure).item()))
        if sched is not None:
            sched.step()
            print(json.dumps(sched.get_last_lr()))
    print(json.dumps([p.sum().item() for p in net.parameters()] + [g["lr"] for g in opt.param_groups]))


def groups(net):
    return Lamb([{"params": net[0].parameters(), "weight_decay": 0.1}, {"params": net[2].parameters(), "lr": 0.03, "trust": False}])


net = made()
trained(net, groups(net))
for schedule in (lambda o: lr_scheduler.CosineAnnealingLR(o, 5, eta_min=1e-3), lambda o: lr_scheduler.StepLR(o, 2, 0.5),
                 lambda o: lr_scheduler.LambdaLR(o, lambda s: 1 / (s + 1)),
                 lambda o: lr_scheduler.OneCycleLR(o, [0.1, 0.2], total_steps=9, cycle_momentum=False)):
    net = made()
    optimizer = groups(net)
    trained(net, optimizer, schedule(optimizer))
optimizer.param_groups[0]["lr"] = 0.2
trained(net, optimizer)
other = made()
second_optimizer = groups(other)
other.load_state_dict(net.state_dict())
second_optimizer.load_state_dict(optimizer.state_dict())
trained(other, second_optimizer)
trained(net, optimizer)
net = made()
optimizer = Plain(net.parameters(), 0.1)
for _ in range(3):
    optimizer.zero_grad(set_to_none=False)
    net(torch.ones(1, 2)).sum().backward()
    optimizer.step()
print(json.dumps([p.sum().item() for p in net.parameters()] + [isinstance(optimizer, Optimizer)]))
for wrong in ([], [{"params": net[0].parameters()}, {"params": net.parameters()}], torch.ones(2)):
    try:
        Plain(wrong, 0.1)
    except (TypeError, ValueError) as error:
        print(json.dumps(type(error).__name__))
'''
)


def _printed(path):
    ended = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)
    assert not ended.returncode, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


@pytest.mark.paddle
def test_the_steps_of_an_optimizer_of_the_programs_own_are_those_of_pytorch(tmp_path):
    (tmp_path / "in.py").write_text(PROGRAM)
    ledger = convert_code(tmp_path / "in.py", tmp_path / "out.py")
    assert [(each.name, each.note) for each in ledger.places if each.fate is Fate.BY_HAND] == []
    expected, found = _printed(tmp_path / "in.py"), _printed(tmp_path / "out.py")
    assert len(found) == len(expected) > 20
    for one, two in zip(expected, found, strict=True):
        assert two == (one if isinstance(one, str) else pytest.approx(one, abs=1e-5))


STEP = "class Own(Optimizer):\n    def __init__(self, params):\n        super().__init__(params, {{'lr': 0.1}})\n\n    def step(self):\n"
STEP += "        for group in self.param_groups:\n            for p in group['params']:\n                {line}\n"


@pytest.mark.parametrize(
    "line",
    [
        "p.data.sub_(p.grad.mean(dim=1, keepdim=True))",
        "p.data.sub_(p.grad.mean(-1, True))",
        "p.data.sub_(p.grad @ p.grad)",
        "p.data.sub_(p.grad.t())",
        "p.data.mul_(p.shape[0] ** 0.5)",
        "p.data[0].mul_(2)",
        "p.data[:, 1:].mul_(2)",
        "p.data.sub_(rows(p.grad))",
        "p.data.sub_(unknown.orthogonal(p.grad))",
        "p.data.sub_(torch.linalg.svd(p.grad)[0])",
    ],
)
def test_a_step_that_may_look_at_rows_is_by_hand(tmp_path, line):
    source = HEAD + "def rows(g):\n    return g / g.sum(1)\n\n\n" + STEP.format(line=line)
    (tmp_path / "in.py").write_text(source)
    ledger = convert_code(tmp_path / "in.py", tmp_path / "out.py")
    notes = [each.note for each in ledger.places if each.fate is Fate.BY_HAND and each.name == "torch.optim.Optimizer"]
    assert len(notes) == 1
    assert "the other way round" in notes[0]


def test_a_method_that_the_port_would_not_call_is_by_hand(tmp_path):
    source = HEAD + STEP.format(line="p.data.sub_(p.grad)") + "\n    def zero_grad(self):\n        print('mine')\n"
    (tmp_path / "in.py").write_text(source)
    ledger = convert_code(tmp_path / "in.py", tmp_path / "out.py")
    assert [each.name for each in ledger.places if each.fate is Fate.BY_HAND] == ["torch.optim.Optimizer"]
