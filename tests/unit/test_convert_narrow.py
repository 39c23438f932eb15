"""Sums of narrow whole numbers, places of unique values, and gradients that are kept."""

from __future__ import annotations

import subprocess
import sys

import pytest

from paralign.port.drafts.converted import convert_code

PROGRAM = """import torch

m = torch.tensor([[True, False, True], [True, True, True]])
x = torch.tensor([[3.0, 1.0], [1.0, 3.0]])


def shown(*values):
    print([(str(each.dtype).split(".")[-1], each.tolist()) for each in values])


shown(*((m.byte() * 200).sum(), m.to(torch.uint8).sum(1, keepdim=True), torch.sum(m.to(torch.int8), 0), m.short().sum(dim=1)))
shown(*(m.cumsum(0), (x > 1).cumsum(dim=1), torch.cumsum(m, -1)))
shown(m.gather(1, torch.tensor([[1], [0]])), torch.gather(x > 1, 0, torch.tensor([[1, 0]])), x.gather(1, torch.tensor([[1], [0]])))
shown(*torch.unique(x, return_inverse=True))
shown(*x.unique(return_inverse=True, return_counts=True))
shown(*torch.unique(x, dim=0, return_inverse=True))
shown(*x.unique_consecutive(return_inverse=True, return_counts=True))
shown(*(torch.tensor([1.0, float("nan"), 3.0]).nanmedian(), x.nanmedian(1).values))
w = torch.tensor([1.0, 2.0], requires_grad=True)
before = w * 3
before.register_hook(lambda g: g * 2)
before.retain_grad()
after = before * 1
after.retain_grad()
seen = []
after.register_hook(lambda g: seen.append(g.sum().item()))
(after**2).sum().backward()
print(w.grad.tolist(), before.grad.tolist(), after.grad.tolist(), seen)
"""

HOOKED = """import torch

w = torch.tensor([1.0, 2.0], requires_grad=True)
y = w * 3
y.retain_grad()
y.register_hook(lambda g: g * 2)
(y**2).sum().backward()
print(y.grad.tolist())
"""


def _ran(folder, name):
    return subprocess.run([sys.executable, name], cwd=folder, capture_output=True, text=True, check=False)


def test_narrow_sums_places_and_kept_gradients_are_those_of_pytorch(tmp_path):
    pytest.importorskip("paddle")
    pytest.importorskip("torch")
    (tmp_path / "source.py").write_text(PROGRAM, encoding="utf-8")
    convert_code(tmp_path / "source.py", tmp_path / "port.py")
    expected = _ran(tmp_path, "source.py").stdout
    assert len(expected.splitlines()) == 9
    assert _ran(tmp_path, "port.py").stdout == expected


def test_a_hook_that_changes_a_kept_gradient_raises(tmp_path):
    pytest.importorskip("paddle")
    (tmp_path / "source.py").write_text(HOOKED, encoding="utf-8")
    convert_code(tmp_path / "source.py", tmp_path / "port.py")
    ran = _ran(tmp_path, "port.py")
    assert "register the hook first" in ran.stderr
    assert not ran.stdout


@pytest.mark.parametrize(
    ("call", "written"),
    [
        ("m.byte().sum()", "paddle.sum(m.astype('uint8').astype('int64'), None, keepdim=False)"),
        ("m.int().sum()", "m.astype('int32').sum()"),
        ("m.byte().sum(dtype=torch.float32)", "m.astype('uint8').sum(dtype="),
        ("torch.unique(m)", "paddle.compat.unique(m, True, False, False, None)"),
    ],
)
def test_only_sums_that_differ_are_written_in_another_type(tmp_path, call, written):
    (tmp_path / "source.py").write_text(f"import torch\n\nm = torch.ones(2)\nprint({call})\n", encoding="utf-8")
    convert_code(tmp_path / "source.py", tmp_path / "port.py")
    assert written in (tmp_path / "port.py").read_text(encoding="utf-8")
