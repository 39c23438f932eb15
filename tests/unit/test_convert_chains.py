"""Parts that are changed in place by an index, a view or a chain, told at run time where the source does not tell."""

from __future__ import annotations

import pytest
from tests.unit.converted_programs import check_that_it_prints_the_same, run

from paralign.port.drafts.converted import convert_code

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n"

#: programs that print the same on both sides
PROGRAMS = {
    "results that are new": (
        "a = torch.arange(1.0, 5.0)\nprint(torch.min(a - 3, a).clamp_(min=0).tolist(), torch.max(a).mul_(2).item(), a.max().add_(1).item())\n"
        "print(a.diff().mul_(2).tolist(), torch.linalg.norm(a).ceil_().item(), F.pad(a, (1, 1)).add_(1).tolist(), a.tolist())"
    ),
    "rows by an index that is known at run time": (
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.register_buffer('rms', torch.ones(3))\n"
        "        self.step, self.rate = 1, 0.5\n\n    def forward(self, x):\n"
        "        self.rms[self.step].mul_(1 - self.rate).add_(x.mean(), alpha=self.rate)\n        return self.rms\n\n"
        "print(Net()(torch.ones(3) * 3).tolist())\n"
        "m = torch.arange(-4.0, 5.0).reshape(3, 3)\nfor row in [0, 2]:\n    m[row].clamp_(max=3.0)\n    m[row, 1:].clamp_(min=-3).mul_(2)\nprint(m.tolist())\n"
        "y = m[1]\nk = int('2')\ny[k].add_(4).mul_(2)\nprint(m.tolist())\n"
        "p = nn.Parameter(torch.ones(3, 2))\nwith torch.no_grad():\n    p[k].mul_(3).add_(1)\nprint(p.tolist(), p.is_leaf)"
    ),
    "what a dictionary keeps by its names": (
        "net = nn.Linear(2, 1)\nshadow = {k: torch.zeros_like(v) for k, v in net.state_dict().items()}\nfor k, v in net.state_dict().items():\n"
        "    if k in shadow:\n        shadow[k].lerp_(torch.ones_like(v), 0.5)\n\n"
        "class Kept:\n    def __init__(self):\n        self.shadow = {'a': torch.zeros(2)}\n\n    def update(self, k, v):\n"
        "        self.shadow[k].lerp_(v, 0.5)\n        self.shadow[k].mul_(2).add_(v)\n\n"
        "kept = Kept()\nkept.update('a', torch.ones(2))\nprint([v.flatten().tolist() for v in shadow.values()], kept.shadow['a'].tolist())"
    ),
    "what an index copies is left": (
        "x = torch.zeros(4)\nat, t = [0, 2], torch.tensor(3)\nx[at].add_(1).mul_(2)\nx[torch.tensor([1, 2])].mul_(2).add_(3)\nx[x < 1].add_(3).mul_(2)\n"
        "x[t].add_(7).mul_(2)\nprint(x.tolist())"
    ),
    "views of rows": (
        "out = torch.full((2, 5), -1)\nfor row, t, n in zip(out, [torch.tensor([1, 2]), torch.tensor([3])], [2, 1]):\n"
        "    row.narrow(-1, 0, n).copy_(t)\n    row.select(0, 4).fill_(n)\nprint(out.tolist())\n"
        "x = torch.zeros(4, 3)\nfor i in range(2):\n    x[i:i + 2].narrow(1, 0, 1).add_(i + 1)\n    x[i].select(0, 2).fill_(i)\n"
        "x[:, :2].unsqueeze(0).add_(1)\nx[:, 1].view(-1).mul_(4)\nx[:, :2].reshape(-1).add_(100)\nfor a in x.chunk(2, dim=1):\n    a.narrow(1, 0, 1).add_(4)\n"
        "print(x.tolist())"
    ),
}

#: programs that print something else, or are refused, without gradients being lost in silence
RAISING = {
    "the view of a copy": "x = torch.zeros(1, 4)\na = x.expand(1, 4)\na.view(-1).add_(1)\nprint(x.tolist())",
    "a row of a copy": "x = torch.zeros(3, 4)\na, b = x.tensor_split(2, dim=1)\nk = int('2')\na[k].add_(4).mul_(2)\nprint(x.tolist())",
    "an item of a list": "x = torch.ones(2, 2)\nts, k = [x[0], x[1]], int('1')\nts[k].mul_(2).add_(1)\nprint(x.tolist())",
    "the view of a part with a gradient": (
        "x = torch.ones(4, requires_grad=True)\ny = x * 1\na, b = y.split(2)\nwith torch.no_grad():\n    a.view(-1).mul_(3)\nprint(y.tolist())"
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_port_prints_what_the_original_prints(tmp_path, name):
    check_that_it_prints_the_same(tmp_path, HEAD + PROGRAMS[name] + "\n")


@pytest.mark.parametrize("name", RAISING)
def test_what_paddle_would_lose_raises(tmp_path, name):
    (tmp_path / "in.py").write_text(HEAD + RAISING[name] + "\n")
    convert_code(tmp_path / "in.py", tmp_path / "out.py")
    port = run(tmp_path / "out.py")
    assert port.returncode == 1
    assert "NotImplementedError" in port.stderr
    assert not port.stdout


def test_a_lambda_cannot_hold_what_binds_a_name(tmp_path):
    (tmp_path / "in.py").write_text(HEAD + "def f(x, k):\n    x[k].mul_(y := 2).add_(1)\n    return x, y\n")
    convert_code(tmp_path / "in.py", tmp_path / "out.py")
    written = (tmp_path / "out.py").read_text()
    assert "lambda _part" not in written
    assert "_held_in(x, k)" in written
