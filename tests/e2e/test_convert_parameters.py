"""Parameters, their gradients, and several tensors as one index, in converted programs."""

import json
import subprocess
import sys

import pytest

from paralign.port.drafts.converted import convert_code
from paralign.port.edits.ledger import Fate

pytestmark = pytest.mark.programs

pytest.importorskip("torch")
pytest.importorskip("paddle")

STARTS = """
import json
import torch
from torch import nn


def started(tensor):
    nn.init.normal_(tensor, 5.0, 0.001)


def of_layers(m):
    if "Conv" in type(m).__name__ or isinstance(m, nn.Linear):
        nn.init.normal_(m.weight.data, 5.0, 0.001)
        nn.init.constant_(m.bias.data, 5.0)


net = nn.ParameterList([nn.Parameter(torch.zeros(6, 4)) for _ in range(8)])
a, b, c, d, e, f, g, h = net
nn.init.normal_(a.data, 5.0, 0.001)
nn.init.uniform_(b.data, 4.999, 5.001)
nn.init.trunc_normal_(c.detach(), 5.0, 0.001, 4.9, 5.1)
held = d.data
nn.init.normal_(held, 5.0, 0.001)
started(e.data)
for row in range(6):
    nn.init.normal_(f[row], 5.0, 0.001)
first = nn.init.normal_
first(g.data, 5.0, 0.001)
for parameter in [h]:
    nn.init.normal_(parameter.data.view(-1), 5.0, 0.001)
layers = nn.Sequential(nn.Conv2d(2, 3, 1), nn.Linear(4, 5)).apply(of_layers)
print(json.dumps([round(each.mean().item(), 2) for each in [*net, *layers.parameters()]]))
"""

GRADIENTS = """
import json
import torch
from torch import nn

out = []
for way in range(6):
    layer = nn.Conv1d(2, 3, 1)
    for at, parameter in enumerate(layer.parameters()):
        parameter.data.fill_(0.5 + at)
    (layer(torch.ones(1, 2, 4)) ** 2).sum().backward()
    for parameter in layer.parameters():
        if way == 0:
            parameter.grad.mul_(0.5)
        elif way == 1:
            parameter.grad.data.clamp_(-3.0, 3.0)
        elif way == 2:
            parameter.grad.add_(parameter.data, alpha=0.1)
        elif way == 3:
            parameter.grad.data.div_(parameter.grad.data.norm(2) + 1)
        elif way == 4:
            parameter.grad.sub_(parameter.grad.mean()).sign_()
        else:
            parameter.grad.zero_()
    torch.optim.SGD(layer.parameters(), lr=0.1).step()
    out.append([round(each.sum().item(), 3) for each in layer.parameters()])
print(json.dumps(out))
"""

FROZEN = """
import copy
import json
import torch
from torch import nn


class Neck(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.BatchNorm1d(4)
        self.a.bias.requires_grad_(False)
        self.b = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        for name, parameter in self.b.named_parameters():
            if "bias" in name:
                parameter.requires_grad = False
        self.c = nn.InstanceNorm1d(4, affine=True)
        self.c.weight.requires_grad = False
        self.d = nn.BatchNorm1d(4)
        for name, parameter in self.d.named_parameters():
            parameter.requires_grad = name != "weight"
        self.e = nn.BatchNorm1d(4)
        for parameter in self.e.parameters():
            parameter.requires_grad = False

    def forward(self, x):
        return self.c(self.e(self.d(self.b(self.a(x)))).t()[None]).sum(0)


out = []
for net in (Neck(), copy.deepcopy(Neck())):
    x = torch.arange(16.0).reshape(4, 4).sin()
    (net(x) * torch.arange(16.0).reshape(4, 4)).sum().backward()
    out.append([each.grad is not None for each in net.parameters()])
    out.append([each.requires_grad for each in net.parameters()])
print(json.dumps(out))
"""

SIZES = """
import json
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
        self.head = nn.Linear(self.body[0].out_features, 5)


net = Net()
out = [net.head.in_features, getattr(net.head, "out_features"), hasattr(net.body[0], "in_features"), hasattr(net.body[1], "in_features")]
net.head = nn.Linear(net.head.in_features, 9)
out += [layer.in_features * layer.out_features for layer in net.modules() if isinstance(layer, nn.Linear)]
print(json.dumps(out))
"""

LOSSES = """
import json
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.modules.loss import _Loss, _WeightedLoss


class Dice(_Loss):
    def __init__(self, reduction="mean"):
        super().__init__(reduction=reduction)

    def forward(self, given, wanted):
        lost = 1 - 2 * (given * wanted).sum(1) / (given + wanted).sum(1)
        return lost.mean() if self.reduction == "mean" else lost.sum()


class Weighted(_WeightedLoss):
    def forward(self, given, wanted):
        return F.nll_loss(given.log_softmax(1), wanted, weight=self.weight, reduction=self.reduction)


given = torch.arange(12.0).reshape(3, 4).sin() + 2
weighted = Weighted(torch.tensor([1.0, 2.0, 3.0, 4.0]))
out = [Dice()(given, given * 2).item(), Dice(reduction="sum")(given, given).item()]
out += [weighted(given, torch.tensor([0, 1, 3])).item(), sum(weighted.state_dict()["weight"].tolist())]
layer = nn.Conv1d(2, 2, 1)
for parameter in layer.parameters():
    parameter.data.fill_(1.0)
weights, biases = {"params": [layer.weight]}, {"params": [layer.bias], "weight_decay": 0.0}
for optimizer in (torch.optim.AdamW(layer.parameters(), lr=0.1), torch.optim.AdamW([weights, biases], lr=0.1)):
    for step in range(3):
        optimizer.param_groups[0]["weight_decay"] = 0.1 * step
        optimizer.zero_grad()
        layer(torch.ones(1, 2, 3)).sum().backward()
        optimizer.step()
    out += [each.sum().item() for each in layer.parameters()] + [group["weight_decay"] for group in optimizer.param_groups]
print(json.dumps([round(each, 3) for each in out]))
"""

INDICES = """
import json
import torch

x = torch.arange(9.0).reshape(3, 3)
pairs = torch.tensor([[0, 1], [1, 2]])
at = pairs.unbind(1)
grid = torch.meshgrid(torch.tensor([0, 1]), torch.tensor([1, 2]), indexing="ij")
y = x.clone()
y[torch.triu_indices(3, 3).unbind(0)] = 0


def several(x):
    return x.chunk(3)


first, second = pairs.unbind(1)
out = [x[pairs.unbind(1)], x[at], x[torch.unbind(pairs)], x[grid], y, x[first, second]]
print(json.dumps([[each.tolist() for each in out], len(x.unbind(0) + (x,)), isinstance(several(x), tuple), isinstance(x.chunk(3), tuple)]))
"""

FUNCTIONS = """
import json
import torch
import torch.nn.functional as F
from torch import nn

out = []
for frozen in (None, 0, 1, "w", "b"):
    for training in (True, False):
        x = torch.arange(24.0).reshape(4, 3, 2).sin()
        weight, bias = nn.Parameter(torch.tensor([1.0, 2.0, 3.0])), nn.Parameter(torch.tensor([0.5, 0.0, 1.0]))
        if frozen in (0, 1):
            (weight, bias)[frozen].requires_grad_(False)
        w, b = None if frozen == "w" else weight, None if frozen == "b" else bias
        y = F.batch_norm(x, torch.zeros(3), torch.ones(3), w, b, training=training)
        (y * torch.arange(24.0).reshape(4, 3, 2)).sum().backward()
        for p in (weight, bias):
            out.append([p.requires_grad, [round(each, 2) for each in p.grad.tolist()] if p.grad is not None else None])
print(json.dumps(out))
"""

PARTS = """
import json
import torch
from torch import nn

out = []
w = nn.Parameter(torch.zeros(6, 4))
for at, part in enumerate(w.data.chunk(3)):
    nn.init.constant_(part, at + 1.0)
out.append(w.tolist())
nn.init.constant_(w.data.split(2)[1], 9.0)
a, b = w.detach().split([1, 3], dim=1)
nn.init.ones_(a)
out.append(w.tolist())
with torch.no_grad():
    a, b, c = w.chunk(3)
    b.mul_(2.0)
    c.fill_(5.0)
    nn.init.zeros_(w.split(2, -1)[1])
out.append(w.tolist())
x = torch.arange(7.0)
out += [[each.tolist() for each in x.chunk(n)] for n in (1, 2, 3, 4, 5, 6, 7, 9)]
out += [[each.tolist() for each in torch.chunk(x.requires_grad_(), 4)]]
out += [[each.tolist() for each in x.split(3)], [each.tolist() for each in torch.split(x, [3, 4])]]
y = torch.cat([p * (i + 1) for i, p in enumerate(x.chunk(4))]).sum()
y.backward()
out.append(x.grad.tolist())
z = torch.arange(6.0).reshape(2, 3)
for v in (z.chunk(2), z.unbind(0), z, torch.meshgrid(z[0], z[1], indexing="ij"), z.split(1), list(z.unbind(1))):
    out.append("tuple" if isinstance(v, tuple) else type(v).__name__ if isinstance(v, list) else "other")
pairs = {"a": z.unbind(0), "b": z.unbind(1)}
for name, v in pairs.items():
    out.append(isinstance(v, tuple))


def several():
    kept = z.unbind(1)
    held = [kept, z]
    return [isinstance(each, tuple) for each in held]


out += several()
out.append(len(torch.zeros(0, 3).chunk(2)))
print(json.dumps(out))
"""


def _both(folder, program):
    (folder / "source.py").write_text(program, encoding="utf-8")
    ledger = convert_code(folder / "source.py", folder / "port.py", force=True)
    ran = [
        subprocess.run([sys.executable, folder / name], capture_output=True, text=True, check=False) for name in ("source.py", "port.py")
    ]
    assert ran[0].returncode == 0, ran[0].stderr
    assert ran[1].returncode == 0, ran[1].stderr
    return ledger, [json.loads(each.stdout.splitlines()[-1]) for each in ran]


@pytest.mark.parametrize(
    "program",
    [STARTS, GRADIENTS, FROZEN, SIZES, LOSSES, INDICES, FUNCTIONS, PARTS],
    ids=["starts", "gradients", "frozen", "sizes", "losses", "indices", "functions", "parts"],
)
def test_a_converted_program_says_what_the_original_says(tmp_path, program):
    ledger, (original, converted) = _both(tmp_path, program)
    assert not ledger.left
    assert converted == original


def test_a_norm_is_left_as_it_is_where_all_of_it_is_frozen(tmp_path):
    (tmp_path / "source.py").write_text(
        "import torch\n\n\ndef freeze(net):\n    for p in net.parameters():\n        p.requires_grad = False\n    net.fc.bias.requires_grad = True\n",
        encoding="utf-8",
    )
    convert_code(tmp_path / "source.py", tmp_path / "port.py", force=True)
    assert "_with_own_gradients" not in (tmp_path / "port.py").read_text(encoding="utf-8")


def test_a_programs_own_helper_of_that_name_is_told(tmp_path):
    (tmp_path / "source.py").write_text(
        "import torch\n\n_with_own_gradients = 1\n\n\ndef freeze(net):\n    net.neck.bias.requires_grad_(False)\n", encoding="utf-8"
    )
    ledger = convert_code(tmp_path / "source.py", tmp_path / "port.py", force=True)
    assert [each.fate for each in ledger.places if each.name == "torch.Tensor.requires_grad"] == [Fate.CONDITION]


def test_buffers_of_a_pass_computed_again_are_told(tmp_path):
    (tmp_path / "source.py").write_text(
        "from torch.utils.checkpoint import checkpoint\n\n\ndef run(layer, x):\n    return checkpoint(layer, x, use_reentrant=False)\n",
        encoding="utf-8",
    )
    ledger = convert_code(tmp_path / "source.py", tmp_path / "port.py", force=True)
    assert [each.fate for each in ledger.places] == [Fate.CONDITION]


@pytest.mark.parametrize(
    ("given", "told"), [("d", False), ("d, num_workers=0", False), ("d, num_workers=n", True), ("d, num_workers=2, collate_fn=list", True)]
)
def test_a_loader_with_workers_is_told(tmp_path, given, told):
    program = f"from torch.utils.data import DataLoader\n\n\ndef load(d, n):\n    return DataLoader({given})\n"
    (tmp_path / "source.py").write_text(program, encoding="utf-8")
    ledger = convert_code(tmp_path / "source.py", tmp_path / "port.py", force=True)
    assert [each.fate is Fate.CONDITION for each in ledger.places] == [told]
