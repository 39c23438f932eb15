"""Modules by other names, empty tensors, places beside values, and what recurrent layers hold."""

from __future__ import annotations

import subprocess
import sys

import pytest

from paralign.port.drafts.converted import convert_code
from paralign.port.edits.ledger import Fate

PROGRAM = """import torch
from torch import nn

F = torch.nn.functional
init = nn.init


class Parts(nn.Module):
    def forward(self, x):
        return {f"part{k}": (x * k).mean() for k in range(3)}


def rates(weights):
    lr = torch.optim.lr_scheduler
    optimizer = torch.optim.SGD(weights, lr=0.1)
    schedule = lr.StepLR(optimizer, 1, gamma=0.5)
    optimizer.step()
    schedule.step()
    return schedule.get_last_lr()


def survival(time, happened):
    single, inverse, count = torch.unique(time, sorted=True, return_inverse=True, return_counts=True)
    deaths = torch.zeros_like(single).index_put_((inverse,), happened.to(single.dtype), accumulate=True)
    at_risk = count.flip(0).cumsum(0).flip(0)
    return torch.cumprod(1 - deaths / at_risk, dim=0)


def ranked(x):
    values, places = x.sort()
    best, at = torch.topk(x, 2)
    most, where = x.max(dim=0)
    return [(values * places).tolist(), (best / (at + 1)).tolist(), (most * where).item()]


def total(parts):
    return torch.stack(list(parts.values())).sum().item()


def filled(layer):
    if isinstance(layer, (nn.GRU, nn.LSTM)):
        for weights in layer.all_weights:
            for each in weights:
                init.constant_(each, 0.1 * each.dim())
    return [[tuple(each.shape) for each in weights] for weights in layer.all_weights]


time = torch.tensor([1.0, 2.0, 2.0, 3.0])
print(F.relu(time - 2).tolist(), rates([nn.Parameter(torch.ones(2))]))
print(survival(time, time > 1.5).tolist(), ranked(torch.tensor([3.0, 1.0, 2.0])))
print(total(Parts()(time)), [tuple(each.shape) for each in (torch.IntTensor(), torch.Tensor())], torch.LongTensor().numel())
gru = nn.GRU(2, 3, num_layers=2, bidirectional=True)
print(filled(gru), filled(nn.LSTM(2, 3, bias=False)))
print(gru(torch.ones(2, 1, 2))[0].sum().item())
"""


def test_modules_by_other_names_and_the_rest_compute_the_same(tmp_path):
    pytest.importorskip("paddle")
    pytest.importorskip("torch")
    source, port = tmp_path / "named.py", tmp_path / "named_port.py"
    source.write_text(PROGRAM, encoding="utf-8")
    ledger = convert_code(source, port)
    assert [each for each in ledger.places if each.fate is Fate.BY_HAND] == []
    ours, theirs = (subprocess.run([sys.executable, each], capture_output=True, text=True, check=False) for each in (port, source))
    assert ours.returncode == 0, ours.stderr
    assert ours.stdout.splitlines()[:-1] == theirs.stdout.splitlines()[:-1]
    assert float(ours.stdout.splitlines()[-1]) == pytest.approx(float(theirs.stdout.splitlines()[-1]), abs=1e-5)


@pytest.mark.parametrize(
    "program",
    [
        "import torch\nF = torch.nn.functional\nF = other(F)\nprint(F.relu(x))\n",
        "import torch\nF = torch.nn.functional\nprint(getattr(F, name)(x))\nkeep(F)\n",
        "import torch\n\n\ndef run(F):\n    F = torch.nn.functional\n    return F.relu(1)\n",
        "import torch\n\n\ndef run(x):\n    F = torch.nn.functional\n    return F.relu(x)\n\n\nclass F:\n    relu = abs\n\n\nF.relu(1)\n",
        "import torch\nfrom mine import F\n\n\ndef run(x):\n    F = torch.nn.functional\n    return F.relu(x)\n\n\nF.relu(1)\n",
        "import torch\nfrom mine import *\n\n\ndef run(x):\n    F = torch.nn.functional\n    return F.relu(x)\n\n\nF.relu(1)\n",
    ],
)
def test_a_module_by_a_name_of_other_values_is_left_by_hand(tmp_path, program):
    (tmp_path / "kept.py").write_text(program, encoding="utf-8")
    ledger = convert_code(tmp_path / "kept.py", tmp_path / "kept_port.py")
    assert any(each.fate is Fate.BY_HAND and each.name == "torch.nn.functional" for each in ledger.places)
