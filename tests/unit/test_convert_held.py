"""Tensors that dictionaries hold, values of another type or shape, and what Paddle has no counterpart of."""

from __future__ import annotations

import subprocess
import sys

import pytest

from paralign.port.drafts.converted import convert_code

pytestmark = pytest.mark.programs

HELD = """import torch
from torch import nn

class Ring:
    def __init__(self):
        self.store = {k: torch.zeros(4, 2) for k in ("a", "b")}
        self.mask = torch.ones(3)
        self.kept = {"a": torch.ones(2), "b": torch.zeros(2)}

    def extend(self, **fields):
        for k, v in fields.items():
            self.store[k].index_copy_(0, torch.tensor([1, 3]), v)
            self.store[k].mul_(2).add_(v[0], alpha=0.5)
        self.store["a"].clamp_(max=3.0)

    def fill(self, which, i):
        self.kept[which].fill_(i)
        self.kept[which].zero_()
        self.kept[which].copy_(torch.tensor(2))
        self.mask[i].fill_(7)
        self.mask[i - 1].zero_()

def change(d, key, values):
    held = d[key]
    d[key].fill_(2.0)
    d[f"{key}"].add_(1)
    d["x" + key].sub_(1) if "x" + key in d else None
    values[0].copy_(torch.arange(3))
    values[1].data.fill_(4)
    return held

r = Ring()
r.extend(a=torch.ones(2, 2), b=torch.arange(4.0).view(2, 2))
before = r.kept["b"]
r.fill("b", 2)
print({k: v.tolist() for k, v in r.store.items()}, before.tolist(), r.mask.tolist())
v = {0: torch.zeros(3), 1: torch.zeros(2)}
t = torch.zeros(3, 3)
u = v[0]
print(change({"p": torch.zeros(2)}, "p", v).tolist(), u.tolist(), v[1].tolist())
change({"p": torch.zeros(2)}, "p", t)
print(t.tolist())
x = torch.zeros(2, 3)
x.copy_(torch.arange(3))
y = torch.zeros(2)
y.copy_(torch.tensor([1.5, 2.5], dtype=torch.float64))
print(x.tolist(), y.dtype == torch.float32, y.tolist())
n = torch.bincount(torch.tensor([0, 2]), minlength=4).clamp_(min=1)
print(n.tolist(), torch.searchsorted(torch.tensor([1.0, 2.0]), torch.tensor([3.0])).clamp_(max=1).tolist())
class Box:
    def __init__(self):
        self.x = torch.zeros(3)
    def go(self):
        torch.maximum(self.x - 1, torch.arange(3.0), out=self.x)
        return self.x
print(Box().go().tolist())
m = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.9))
was = m.training
print(m.train(False).training, m.train(was).training, m.train().training)
z = {k: v for k, v in dict(a=torch.ones(1), b=3).items() if isinstance(v, torch.Tensor)}
print(sorted(z))
"""

NORMED = """import torch
from torch import nn
x = torch.tensor([1.0, -2.0, 5.0])
x.clamp_(0, 2); print(x.tolist())
x.clamp_(min=1.5); print(x.tolist())
x.clamp_(max=1.75); print(x.tolist())
i = torch.tensor([1, 5])
i.clamp_(max=3); i.clamp_(2); print(i.tolist(), i.dtype == torch.int64)
torch.manual_seed(0)
def fix(p, k):
    with torch.no_grad():
        p.copy_(torch.sin(torch.arange(p.numel(), dtype=torch.float64) + k).reshape(p.shape))
class SN(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = torch.nn.utils.spectral_norm(nn.Conv2d(2, 4, 3))
        self.l = torch.nn.utils.spectral_norm(nn.Linear(4, 4), n_power_iterations=2)
    def forward(self, x):
        return self.l(self.c(x).mean((2, 3)))
m = SN()
fix(m.c.weight_orig, 0); fix(m.c.weight_u, 1); fix(m.c.weight_v, 2); fix(m.c.bias, 3)
fix(m.l.bias, 3); fix(m.l.weight_u, 5); fix(m.l.weight_v, 6)
with torch.no_grad():
    m.l.weight_orig.copy_(torch.diag(torch.arange(1.0, 5)))
opt = torch.optim.SGD(m.parameters(), 0.1)
inp = torch.sin(torch.arange(2 * 2 * 25.0)).reshape(2, 2, 5, 5)
for _ in range(3):
    loss = (m(inp) ** 2).sum()
    opt.zero_grad(); loss.backward(); opt.step()
    print(f"{loss.item():.4f}")
m.eval()
print(f"{m(inp).sum().item():.4f}")
"""

AVERAGED = """import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel
bag = nn.EmbeddingBag(5, 2, mode="sum"); mean = nn.EmbeddingBag(5, 2)
with torch.no_grad():
    for b in (bag, mean):
        b.weight.copy_(torch.arange(10.0).view(5, 2) ** 1.5)
i, o = torch.tensor([0, 3, 3, 1, 4]), torch.tensor([0, 2, 2, 4])
w = torch.tensor([1.0, 2, 3, 4, 5])
y = bag(i, o, per_sample_weights=w); z = mean(i, o); r = mean(i[:4].view(2, 2))
print([[round(v, 3) for v in t.flatten().tolist()] for t in (y, z, r)])
(y.sum() + (z * z).sum()).backward()
print([[round(v, 3) for v in b.weight.grad.flatten().tolist()] for b in (bag, mean)])
net = nn.Sequential(nn.Linear(2, 3, bias=False), nn.LayerNorm(3), nn.Linear(3, 1))
with torch.no_grad():
    for n, p in net.named_parameters():
        p.copy_(torch.sin(torch.arange(1.0, p.numel() + 1)).reshape(p.shape))
    net[0].weight.copy_(torch.tensor([[1.0, 2], [-3, 1], [0.5, -2]]))
opt = torch.optim.Adam([{"params": list(net.parameters()), "lr": 0.05}], amsgrad=True)
opt2 = torch.optim.Adam(bag.parameters(), lr=0.1, amsgrad=True)
avg = AveragedModel(net)
ema = AveragedModel(net, avg_fn=lambda a, m, n: 0.9 * a + 0.1 * m)
x = torch.sin(torch.arange(12.0)).view(6, 2)
for k in range(5):
    loss = (net(x) - x[:, :1] * (-1) ** k * (5 - k)).square().mean() + bag(i, o).pow(2).mean() * (5 if k < 2 else 0.1)
    opt.zero_grad(); opt2.zero_grad(); loss.backward(); opt.step(); opt2.step()
    if k > 0:
        avg.update_parameters(net); ema.update_parameters(net)
    print(f"{loss.item():.3f}")
for m in (net, avg, ema, avg.module):
    m.eval()
    print([f"{v:.3f}" for v in m(x).flatten().tolist()])
print(int(avg.n_averaged), [f"{p.sum().item():.3f}" for p in avg.module.parameters()])
"""

PARTS_OF_WEIGHTS = """import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(4, 3, padding_idx=2)
        self.head = nn.Linear(3, 3)

def fill(model):
    with torch.no_grad():
        for m in model.modules():
            if hasattr(m, "weight"):
                m.weight[:] = torch.arange(float(m.weight.numel()), dtype=torch.float64).view(m.weight.shape)
                m.weight[1] = torch.tensor([9.0, 8, 7])
        model.embed.weight[model.embed.padding_idx].fill_(0)
        model.head.weight[0, 1].fill_(5)
        model.head.weight.data[2] = 1.5
        model.head.bias.zero_()

net = Net()
fill(net)
print(net.embed(torch.tensor([0, 1, 2, 3])).tolist())
print(net.head(torch.tensor([[1.0, 10, 100]])).tolist())
"""

OWN_METHODS = """import torch
from torch import nn

class Shift(nn.Module):
    def __init__(self, by):
        super().__init__()
        self.by = by
    def forward(self, x):
        return x + self.by, x.sum()
    def inverse(self, z, scale=1.0):
        return (z - self.by) * scale

class Chain(nn.Module):
    def __init__(self, *steps):
        super().__init__()
        self.steps = nn.ModuleList(steps)
    def inverse(self, z):
        for step in reversed(list(self.steps)):
            z = step.inverse(z)
        return z

def run(chain, x):
    return chain.inverse(x)

print(run(Chain(Shift(1.0), Shift(2.0)), torch.zeros(2)).tolist())
m = torch.tensor([[2.0, 0.0], [0.0, 4.0]])
print(m.inverse().tolist())
device = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
print(torch.ones(1, device=device).tolist())
"""

DERIVED = """import torch
import torch.nn as nn
import torch.nn.functional as F

x = torch.tensor([[1.0, 2, 3], [4, 5, 6]], requires_grad=True)
for offset, one, two in ((0, -2, -1), (1, -2, -1), (-2, 0, 1), (1, 2, 0)):
    y = torch.diag_embed(x, offset, one, two)
    w = torch.arange(float(y.numel())).view(y.shape)
    x.grad = None
    (y * y * w).sum().backward()
    print(list(y.shape), y.flatten().tolist(), x.grad.tolist())
u = x[0].diag_embed()
u[0, 1] = 5.0
print(torch.autograd.grad((u * u).sum(), x)[0].tolist(), x.detach().diag_embed(1)[0].tolist())

class Masked(nn.Linear):
    def __init__(self, a, b):
        super().__init__(a, b)
        self.register_buffer("mask", torch.tril(torch.ones(b, a)))
    def forward(self, x):
        return F.linear(x, self.weight * self.mask, self.bias)

class Scaled(nn.Linear):
    def forward(self, x):
        return F.linear(x, self.weight, self.bias) * self.weight.shape[0] + self.weight.sum(1)

def start(m):
    with torch.no_grad():
        m.weight.copy_(torch.arange(float(m.weight.numel())).view(m.out_features, m.in_features))
        m.bias.zero_()
    return m

masked, scaled, square = Masked(3, 2), Scaled(3, 2), Scaled(2, 2)
start(masked), start(scaled), start(square)
x = torch.tensor([[1.0, 10, 100]])
print(masked(x).tolist(), scaled(x).tolist(), square(x[:, :2]).tolist())
"""

REFUSED = """import torch


def change(values, at):
    values[at].mul_(2)


change({0: torch.ones(2)}, 0)
change(torch.ones(2, 2).chunk(2), 0)
"""


@pytest.mark.parametrize(
    "program",
    [HELD, NORMED, AVERAGED, PARTS_OF_WEIGHTS, OWN_METHODS, DERIVED],
    ids=["held", "normed", "averaged", "weights", "methods", "derived"],
)
def test_a_program_prints_what_it_prints_in_pytorch(tmp_path, program):
    pytest.importorskip("paddle")
    pytest.importorskip("torch")
    (tmp_path / "source.py").write_text(program, encoding="utf-8")
    assert not convert_code(tmp_path / "source.py", tmp_path / "port.py").left
    ran = [_run(tmp_path, name) for name in ("source.py", "port.py")]
    assert ran[0].stdout
    assert ran[1].stdout == ran[0].stdout, ran[1].stderr


def test_a_part_of_what_turns_out_to_be_a_tensor_raises(tmp_path):
    pytest.importorskip("paddle")
    (tmp_path / "source.py").write_text(REFUSED, encoding="utf-8")
    assert not convert_code(tmp_path / "source.py", tmp_path / "port.py").left
    ran = _run(tmp_path, "port.py")
    assert "what a list holds, is changed in place" in ran.stderr
    assert ", in change\n" in ran.stderr


def _run(folder, name):
    return subprocess.run([sys.executable, name], cwd=folder, capture_output=True, text=True, check=False)
