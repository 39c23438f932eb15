"""Methods and classes that are decided when a program runs, functions of two types, loaders and schedules of a program's own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from paralign.port.drafts.converted import convert_code
from paralign.port.edits.ledger import Fate

pytestmark = pytest.mark.programs

SECOND = """import torch


def of_unknown(x, y):
    return x.where(x > 1, y), x.std(dim=0, keepdim=True), x.var(dim=(0, 1)), Own().where(1, 2), Own().std(dim=4)


class Own:
    def where(self, first, second):
        return first, second

    def std(self, dim):
        return dim


x = torch.arange(6.0).reshape(2, 3)
for each in of_unknown(x, x - 10):
    print([round(one, 5) for one in each.flatten().tolist()] if isinstance(each, torch.Tensor) else each)
"""

PAIRS = """import torch

at, real = torch.arange(1, 4), torch.tensor([0.5, 1.5, 2.25])


def of_unknown(x, y):
    functions = [torch.outer, torch.ger, torch.kron, torch.atan2, torch.hypot, torch.copysign, torch.remainder, torch.floor_divide, torch.logaddexp]
    found = [torch.outer(x, y), torch.kron(x, y), torch.atan2(x, y), torch.hypot(x, y), torch.copysign(x, y), torch.remainder(x, y)]
    return [*found, torch.floor_divide(x, y), torch.logaddexp(x, y), x.outer(y), x.remainder(y), *[each(x, y) for each in functions]]


for each in [*of_unknown(at, real), *of_unknown(real, at), torch.outer(at, real), torch.outer(at, at), at.remainder(2)]:
    print(str(each.dtype).rpartition(".")[2], [round(one, 5) for one in each.flatten().tolist()])
"""

KINDS = """import torch
from torch import nn
from torch.utils.data import DistributedSampler, SequentialSampler

made = [nn.LSTM(2, 3), nn.GRU(2, 3), nn.Linear(2, 2), DistributedSampler(range(4), 1, 0), nn.RMSNorm(3)]
for m in made:
    print([isinstance(m, nn.LSTM), isinstance(m, (nn.GRU, nn.Linear)), isinstance(m, DistributedSampler), not isinstance(m, nn.RMSNorm)])
"""

#: a class of one file, whose objects are asked for in another
OTHER_FILE = """from torch import nn


def is_recurrent(m):
    return isinstance(m, (nn.LSTM, nn.GRU))
"""


def printed(folder, text):
    (folder / "program.py").write_text(text)
    done = subprocess.run([sys.executable, folder / "program.py"], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.torch
@pytest.mark.paddle
@pytest.mark.parametrize("text", [SECOND, PAIRS, KINDS])
def test_the_port_prints_what_the_program_prints(tmp_path, text):
    expected = printed(tmp_path, text)
    ledger = convert_code(tmp_path / "program.py", tmp_path / "port.py")
    assert not ledger.left
    assert expected.count("\n") > 4
    assert printed(tmp_path, (tmp_path / "port.py").read_text()) == expected


@pytest.mark.torch
@pytest.mark.paddle
def test_a_class_that_stands_in_two_files_is_asked_for_by_its_name(tmp_path):
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "asked.py").write_text(OTHER_FILE)
    made = "from torch import nn\nfrom asked import is_recurrent\n\nprint(is_recurrent(nn.LSTM(2, 3)), is_recurrent(nn.Linear(2, 3)))\n"
    (tmp_path / "source" / "made.py").write_text(made)
    assert not convert_code(tmp_path / "source", tmp_path / "port").left
    for folder in ("source", "port"):
        done = subprocess.run([sys.executable, tmp_path / folder / "made.py"], capture_output=True, text=True, check=False)
        assert done.stdout == "True False\n", done.stderr


@pytest.mark.parametrize("asked", ["issubclass(m, nn.LSTM)", "type(m) is nn.LSTM", "isinstance(m, nn.LPPool2d)"])
def test_what_a_name_cannot_answer_is_left_by_hand(tmp_path, asked):
    (tmp_path / "a.py").write_text(f"from torch import nn\n\n\ndef is_one(m):\n    return {asked}\n")
    assert Fate.BY_HAND in [place.fate for place in convert_code(tmp_path / "a.py", tmp_path / "b.py").places]


def test_numbers_and_types_that_are_known_stay_plain(tmp_path):
    (tmp_path / "a.py").write_text(
        "import torch\n\n\ndef f(x):\n    return torch.atan2(torch.sin(x), torch.cos(x)), torch.remainder(x, 2)\n"
    )
    convert_code(tmp_path / "a.py", tmp_path / "b.py")
    assert "_of_two" not in (tmp_path / "b.py").read_text()


def test_a_method_whose_tensor_comes_second_is_not_written_with_keywords(tmp_path):
    (tmp_path / "a.py").write_text("import torch\n\n\ndef f(x, y):\n    return x.where(condition=x > 1, other=y)\n")
    convert_code(tmp_path / "a.py", tmp_path / "b.py")
    assert "_of_tensor" not in (tmp_path / "b.py").read_text()


BY_NAME = """import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

kind = getattr(torch, "float" + "64")
x = torch.linspace(-2, 2, 12).reshape(3, 4)
layers = nn.Sequential(getattr(nn, "Re" + "LU")(), getattr(nn, "".join(["Layer", "Norm"]))(4, eps=1e-3))
loss = getattr(F, {"smooth": "smooth_l1_loss"}["smooth"])
assert sys.argv[1] in "SGD Adam AdamW RMSprop Rprop".split()
family = getattr(torch.optim, sys.argv[1])
w = nn.Parameter(torch.ones(4))
optimizer = family([w], lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    loss(layers(x) * w, torch.zeros(3, 4), beta=0.5).backward()
    optimizer.step()
print([round(float(each), 4) for each in w], "float64" in str(x.to(kind).dtype))
"""


def _run(folder, name, family):
    return subprocess.run([sys.executable, name, family], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("family", ["SGD", "Adam", "AdamW", "RMSprop"])
def test_a_name_made_at_run_time_is_looked_up(tmp_path, family):
    pytest.importorskip("paddle")
    pytest.importorskip("torch")
    (tmp_path / "source.py").write_text(BY_NAME, encoding="utf-8")
    assert not convert_code(tmp_path / "source.py", tmp_path / "port.py").left
    ran = [_run(tmp_path, name, family) for name in ("source.py", "port.py")]
    assert ran[0].stdout
    assert ran[1].stdout == ran[0].stdout, ran[1].stderr


def test_a_table_of_names_holds_what_the_file_names(tmp_path):
    source = "from torch import nn\n\n\ndef make(name='GELU', *given):\n    return getattr(nn, name)(*given)\n"
    (tmp_path / "source.py").write_text(source, encoding="utf-8")
    assert not convert_code(tmp_path / "source.py", tmp_path / "port.py").left
    text = (tmp_path / "port.py").read_text(encoding="utf-8")
    assert "'GELU': " in text
    assert "BatchNorm" not in text
    assert len(text.splitlines()) < 50


def test_a_table_of_names_holds_what_another_file_names(tmp_path):
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "config.py").write_text("act: str = 'ELU'\n", encoding="utf-8")
    made = "from torch import nn\n\n\ndef make(name):\n    return getattr(nn, name)()\n"
    (tmp_path / "source" / "made.py").write_text(made, encoding="utf-8")
    assert not convert_code(tmp_path / "source", tmp_path / "port").left
    assert "'ELU': " in (tmp_path / "port" / "made.py").read_text(encoding="utf-8")


def test_a_made_name_without_a_conversion_raises_with_its_name(tmp_path):
    pytest.importorskip("paddle")
    (tmp_path / "source.py").write_text(BY_NAME, encoding="utf-8")
    convert_code(tmp_path / "source.py", tmp_path / "port.py")
    ran = _run(tmp_path, "port.py", "Rprop")
    assert "torch.optim.Rprop is not converted here" in ran.stderr


EMPTY = """import torch


class Bank:
    def __init__(self):
        self.kept = torch.empty(0)

    def add(self, x):
        self.kept = torch.cat([self.kept, x], dim=0)


bank = Bank()
found = torch.tensor([])
listed, pair = [torch.zeros(0)], torch.zeros(0)
low, high = torch.empty(0), torch.empty((0,))
for at in range(3):
    x = torch.arange(6.0).reshape(2, 3) + at
    bank.add(x)
    found = torch.cat((found, x[0]))
    listed.append(x)
    low, high = torch.cat([low, x]), torch.cat([high, x[:, :1]])
print(low.tolist(), high.tolist(), torch.cat([pair, x]).tolist())
print(bank.kept.tolist(), found.tolist(), torch.cat(listed, 0).tolist(), torch.cat([torch.empty(0), torch.tensor([[1, 2]])], 1).tolist())
print(list(torch.cat([torch.empty(0), torch.zeros(0)]).shape))
"""


def test_cat_leaves_out_tensors_without_elements(tmp_path):
    pytest.importorskip("paddle")
    pytest.importorskip("torch")
    (tmp_path / "source.py").write_text(EMPTY, encoding="utf-8")
    assert not convert_code(tmp_path / "source.py", tmp_path / "port.py").left
    ran = [
        subprocess.run([sys.executable, name], cwd=tmp_path, capture_output=True, text=True, check=False)
        for name in ("source.py", "port.py")
    ]
    assert ran[0].stdout
    assert ran[1].stdout == ran[0].stdout, ran[1].stderr
