"""Hooks of weights see gradients as PyTorch lays them out; what meets weights in another layout is told."""

from __future__ import annotations

import subprocess
import sys

from paralign.port.drafts.converted import convert_code
from paralign.port.edits.ledger import Fate

RUN = """import torch
from torch import nn

x = torch.tensor([[1.0, 2.0, 3.0], [0.5, -1.0, 2.0]])
mask = torch.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
seen = []


def layer(out=3):
    made = nn.Linear(3, out)
    with torch.no_grad():
        made.weight.copy_(torch.arange(3.0 * out).reshape(out, 3))
        made.bias.fill_(1.0)
    return made


def passed(net):
    ((net(x) ** 2) * torch.tensor([[1.0], [3.0]])).sum().backward()
    print(net.weight.grad.tolist())


def noted(gradient):
    seen.append((tuple(gradient.shape), gradient[0].tolist()))


first = layer(2)
first.weight.register_hook(lambda gradient: gradient * 2)
first.weight.register_hook(noted)
passed(first)
second = layer()
handle = second.weight.register_hook(lambda gradient: gradient * mask)
passed(second)
second.zero_grad()
handle.remove()
passed(second)
third = layer()
third.weight.register_hook(hook=lambda gradient: gradient.tril())
third.bias.register_hook(lambda gradient: gradient * 0)
passed(third)
print(third.bias.grad.tolist())
conv = nn.Conv1d(2, 3, 2)
conv.weight.register_hook(lambda gradient: gradient * torch.arange(2.0))
conv(torch.ones(1, 2, 4)).sum().backward()
print(conv.weight.grad.tolist())
net = nn.Sequential(layer(), layer(2))
for each in net:
    each.weight.register_hook(lambda gradient: gradient[:1] + gradient)
net(x).sum().backward()
print([each.weight.grad.tolist() for each in net])
total = []
last = layer()
kept = [p.register_post_accumulate_grad_hook(lambda p: total.append(p.grad.sum().item())) for p in last.parameters()]
for _ in range(2):
    passed(last)
kept[0].remove()
passed(last)
print(seen, sorted(total))
freed = layer()
optimizers = {p: torch.optim.SGD([p], lr=0.01) for p in freed.parameters()}


def stepped(p):
    optimizers[p].step()
    optimizers[p].zero_grad()


for p in freed.parameters():
    p.register_post_accumulate_grad_hook(stepped)
for _ in range(2):
    freed(x).sum().backward()
print(freed(x).tolist())
base = torch.ones(3, requires_grad=True)
for again in range(3):
    y = base * 2
    z = base + y
    square = (y * y).sum()

    def once(gradient):
        handles[0].remove()
        inner = torch.autograd.grad(square, base, gradient.sum(), retain_graph=True)[0]
        return gradient + inner

    handles = [z.register_hook(once), z.register_hook(lambda gradient: gradient * 3)]
    z.sum().backward(retain_graph=True)
    z.sum().backward()
print(base.grad.tolist())
freed = layer()
for p in freed.parameters():
    p.register_post_accumulate_grad_hook(lambda p: p.sub_(0.1 * p.grad))
freed(x).sum().backward()
print(freed(x).tolist())
"""

TOLD = """import torch
from torch import nn

net = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
W = torch.arange(9.0).reshape(3, 3)
noise = {"0.weight": W, "2.weight": 2 * W}
rate = 0.1


def blend(a, b):
    a.mul_(0.5).add_(b, alpha=0.5)  # told


def halved(a, b):
    a.mul_(0.5).add_(b, alpha=0.5)


def by_row(gradient):
    return gradient / gradient.norm(dim=1, keepdim=True)  # told


def limited(gradient):
    return gradient.clamp(-1, 1) * rate


def shown(gradient):
    print(gradient[0])  # told


state = net.state_dict()
v = state["0.weight"]
summed = v + 0.1 * W  # told
scaled = v * rate + v.abs()
mixed = {k: each - noise[k] for k, each in net.state_dict().items() if k in noise}  # told
grown = {k: each * 2 for k, each in net.state_dict().items()}
net.state_dict()["2.weight"].add_(W)  # told
blend(state["0.weight"], W * 2)
halved(state["0.weight"], state["0.weight"])
for p in net.parameters():
    p.register_hook(by_row)
    p.register_hook(limited)
    p.register_hook(lambda gradient: gradient * 0.5)
    p.register_hook(lambda gradient: gradient * W)  # told
    p.register_post_accumulate_grad_hook(shown)
weights = [p for p in net.parameters() if p.dim() > 1]
weights[0].register_hook(lambda gradient: gradient * W)  # told
weights[1].register_hook(lambda gradient: -gradient)
kept = []
weights[1].register_hook(kept.append)  # told


class Watched:
    @staticmethod
    def by_place(gradient):
        return gradient * gradient[0]  # told

    def halves(self, gradient):
        return gradient * 0.5

    def any_of(self, *given):
        return given[0][0]

    def watch(self):
        weights[0].register_hook(self.by_place)
        weights[0].register_hook(self.halves)
        weights[0].register_hook(self.any_of)  # told
"""


def test_hooks_of_weights_see_and_give_gradients_as_pytorch_lays_them_out(tmp_path):
    source, port = tmp_path / "hooked.py", tmp_path / "hooked_port.py"
    source.write_text(RUN)
    ledger = convert_code(source, port)
    assert [each for each in ledger.places if each.fate is Fate.BY_HAND] == []
    sides = [subprocess.run([sys.executable, each], capture_output=True, text=True, check=False) for each in (source, port)]
    assert sides[1].returncode == 0, sides[1].stderr
    assert sides[0].stdout == sides[1].stdout


def test_what_meets_weights_as_pytorch_lays_them_out_is_told_at_its_line(tmp_path):
    source = tmp_path / "met.py"
    source.write_text(TOLD)
    ledger = convert_code(source, tmp_path / "met_port.py")
    told = {each.line for each in ledger.places if each.name == "torch.nn.Linear.weight" and each.fate is Fate.CONDITION}
    assert told == {at for at, line in enumerate(TOLD.splitlines(), 1) if line.endswith("# told")}
