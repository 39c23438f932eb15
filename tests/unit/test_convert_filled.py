"""Views that a value is put into, of tensors that ask for a gradient."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from paralign.port.drafts.converted import convert_code

PROGRAM = """import json
import torch


def told(change):
    a = torch.arange(12.0).view(3, 4).requires_grad_()
    x = a * 2
    change(x)
    (x * torch.arange(12.0).view(3, 4)).sum().backward()
    print(json.dumps(x.flatten().tolist() + a.grad.flatten().tolist()))


def diagonal(x):
    x.diagonal().fill_(-7)


def offset(x):
    x.diagonal(offset=1, dim1=0, dim2=1).fill_(-float("inf"))
    x[x == -float("inf")] = 0


for each in (diagonal, offset):
    told(each)
z = torch.ones(2, 2)
z.diagonal().zero_()
print(json.dumps(z.tolist()))
w = torch.ones(3, 3, requires_grad=True)
with torch.no_grad():
    w.diagonal().zero_()
print(json.dumps(w.tolist()))
"""

READ = """import torch

a = torch.arange(12.0).view(3, 4).requires_grad_()
x = a * 2
y = x[1]
x.diagonal().fill_(-7)
y.sum().backward()
"""


def _ended(path):
    return subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)


@pytest.mark.paddle
def test_a_diagonal_that_is_filled_keeps_the_gradient_of_the_rest(tmp_path):
    (tmp_path / "in.py").write_text(PROGRAM)
    assert not convert_code(tmp_path / "in.py", tmp_path / "out.py").left
    found = _ended(tmp_path / "out.py")
    assert not found.returncode, found.stderr
    assert [json.loads(line) for line in found.stdout.splitlines()] == [
        json.loads(line) for line in _ended(tmp_path / "in.py").stdout.splitlines()
    ]


@pytest.mark.paddle
def test_one_whose_part_is_read_later_raises(tmp_path):
    (tmp_path / "in.py").write_text(READ)
    convert_code(tmp_path / "in.py", tmp_path / "out.py")
    assert "NotImplementedError" in _ended(tmp_path / "out.py").stderr
