"""Tensors of layers that are computed where they are read: torch.nn.utils.parametrize."""

from __future__ import annotations

import subprocess
import sys

import pytest

from paralign.port.drafts.converted import convert_code
from paralign.port.edits.ledger import Fate

pytestmark = pytest.mark.programs

PROGRAM = r"""
import torch
import torch.nn.functional as F
from torch import nn

import copy
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import weight_norm, spectral_norm

def r(t): return [round(float(v), 4) for v in t.detach().flatten()]

def fill(m):
    with torch.no_grad():
        for k, v in m.state_dict().items():
            v.copy_(torch.linspace(-0.5, 1.0, v.numel()).sin().reshape(v.shape))
    return m

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = weight_norm(nn.Linear(3, 4))
        self.b = weight_norm(nn.Linear(4, 4), dim=1)
        self.c = spectral_norm(nn.Linear(4, 2), n_power_iterations=2)
        self.d = weight_norm(nn.Conv1d(1, 2, 2), dim=None)
        self.e = spectral_norm(nn.ConvTranspose1d(2, 3, 2))

    def forward(self, x):
        x = self.c(F.relu(self.b(self.a(x))))
        return self.e(self.d(x.unsqueeze(1)))

net = Net()
print([(k, tuple(v.shape)) for k, v in net.state_dict().items()])
fill(net)
x = torch.arange(12.0).reshape(4, 3) / 7
opt = torch.optim.SGD(net.parameters(), lr=0.1, weight_decay=0.01)
for _ in range(3):
    opt.zero_grad()
    loss = net(x).square().mean()
    loss.backward()
    opt.step()
    print(round(loss.item(), 5))
for k, v in net.state_dict().items():
    print(k, r(v))
twin = copy.deepcopy(net).eval()
print(r(twin(x)), r(net.eval()(x)))
print(tuple(net.a.weight.shape), isinstance(net.a, nn.Linear), hasattr(net.a, "parametrizations"), parametrize.is_parametrized(net.a), parametrize.is_parametrized(net.a, "bias"))
parametrize.remove_parametrizations(net.a, "weight")
parametrize.remove_parametrizations(net.c, "weight")
parametrize.remove_parametrizations(net.e, "weight", leave_parametrized=True)
print([k for k in net.state_dict()], r(net(x)), type(net.a).__name__, parametrize.is_parametrized(net.a))

class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).transpose(-1, -2)
    def right_inverse(self, a):
        return a.triu()

m = fill(parametrize.register_parametrization(nn.Linear(3, 3), "weight", Symmetric()))
print(r(m(x)), [k for k in m.state_dict()], r(m.parametrizations.weight.original))
try:
    parametrize.remove_parametrizations(net.b, "weight", leave_parametrized=False)
except ValueError as error:
    print(error)
layer = fill(parametrize.register_parametrization(nn.Embedding(3, 2), "weight", nn.Softplus()))
print(list(layer.state_dict()), r(layer(torch.tensor([0, 2]))))
"""


def run(path):
    return subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)


@pytest.mark.torch
@pytest.mark.paddle
def test_computed_weights_are_the_originals(tmp_path):
    (tmp_path / "in.py").write_text(PROGRAM)
    ledger = convert_code(tmp_path / "in.py", tmp_path / "out.py")
    assert not ledger.left
    told = [run(tmp_path / each) for each in ("in.py", "out.py")]
    assert [each.returncode for each in told] == [0, 0], told[-1].stderr
    assert told[0].stdout == told[1].stdout


@pytest.mark.paddle
@pytest.mark.parametrize("layer", ["nn.LSTM(2, 3), 'weight_hh_l0'", "nn.Bilinear(2, 3, 4)", "nn.GRUCell(2, 3), 'weight_hh'"])
def test_layers_whose_weights_lie_otherwise_raise(tmp_path, layer):
    source = f"from torch import nn\nfrom torch.nn.utils.parametrizations import weight_norm\n\nweight_norm({layer})\n"
    (tmp_path / "in.py").write_text(source)
    convert_code(tmp_path / "in.py", tmp_path / "out.py")
    ended = run(tmp_path / "out.py")
    assert ended.returncode == 1
    assert "NotImplementedError" in ended.stderr


def test_an_orthogonal_weight_is_by_hand(tmp_path):
    (tmp_path / "in.py").write_text("from torch import nn\n\nlayer = nn.utils.parametrizations.orthogonal(nn.Linear(2, 2))\n")
    ledger = convert_code(tmp_path / "in.py", tmp_path / "out.py")
    assert [each.name for each in ledger.places if each.fate is Fate.BY_HAND] == ["torch.nn.utils.parametrizations.orthogonal"]
