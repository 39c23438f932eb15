"""Changes of a whole within heads of statements, lambdas, and functions that call one another."""

from __future__ import annotations

import subprocess
import sys

import pytest

from paralign.port.drafts.converted import convert_code

FUNCTIONS = """import torch


def inner(t):
    t.fill_(3)


def outer(t):
    inner(t)


def first_changed(t):
    t.fill_(2)
    t = t + 1
    return t


def first_bound(t):
    t = t + 1
    t.fill_(2)
    return t


def by_a_view(t):
    flat = t.view(-1)
    flat = flat[:2]
    flat.zero_()


def given_back(t):
    return t.expand(2, 4)


def part(t):
    return given_back(t)


def again(t):
    return again(t)


class A:
    def change(self, t):
        t.fill_(2)


class B:
    def change(self, t):
        return t


class Held:
    def __init__(self):
        self.x = torch.zeros(4)
        self.y = self.x.expand(2, 4)


"""

CHANGES = [
    ("return x.add_(1), y", True),
    ("return y, x.add_(1)", True),
    ("return y.sum() + x.add_(1)", False),
    ("return x.add_(y.sum())", False),
    ("z: torch.Tensor = x.add_(1)\n    return y", True),
    ("if x.add_(1).sum() > 0:\n        return y", True),
    ("if c:\n        pass\n    elif x.add_(1).sum() > 0:\n        return y", True),
    ("while x.add_(1).sum() < 10:\n        z = y * 2", True),
    ("while x.add_(1).sum() < 10:\n        y = x.expand(2, 4)\n    return y", True),
    ("while x.sum() < 10:\n        x = x * 2\n    return y", False),
    ("assert x.add_(1) is not None\n    return y", True),
    ("for _ in [x.add_(1)]:\n        z = y * 2", True),
    ("with torch.no_grad(), held(x.add_(1)):\n        z = y * 2", True),
    ("g = lambda: x.fill_(2)\n    g()\n    return y", True),
    ("g = lambda x: x.fill_(2)\n    return y", False),
    ("outer(x)\n    return y", True),
    ("first_changed(x)\n    return y", True),
    ("first_bound(x)\n    return y", False),
    ("by_a_view(x)\n    return y", True),
    ("again(x)\n    return y", False),
    ("A().change(x)\n    return y", True),
    ("y = part(x)\n    x.fill_(2)\n    return y", True),
    ("Held().z.add_(1)", False),
    ("held = Held()\n    held.x.add_(1)\n    return held.y", True),
    ("held = Held()\n    held.z.add_(1)\n    return held.y", False),
]


@pytest.mark.parametrize(("lines", "guarded"), CHANGES)
def test_a_change_raises_wherever_it_stands_if_a_part_is_read_later(tmp_path, lines, guarded):
    source = f"{FUNCTIONS}def run(x, c):\n    y = x.expand(2, 4)\n    {lines}\n"
    (tmp_path / "source.py").write_text(source, encoding="utf-8")
    convert_code(tmp_path / "source.py", tmp_path / "port.py")
    written = (tmp_path / "port.py").read_text(encoding="utf-8").rpartition("def run(")[2]
    assert ("_parts_kept(" in written) is guarded


@pytest.mark.parametrize(
    ("body", "call", "kept"),
    [
        ("return self.d(x)", "y = net(x)\ny.add_(1)", True),
        ("x = x * 1\n        return self.d(x)", "y = net(x)\ny.add_(1)", False),
        ("return self.d(x)", "y = net(x)\ny = y + 1", False),
        ("return F.dropout(x, 0.5, self.training)", "y = net(x)\ny.add_(1)", None),
        ("return F.dropout(x * 2, 0.5, self.training)", "y = net(x)\ny.add_(1)", False),
    ],
)
def test_an_input_that_a_dropout_gives_back_to_a_caller_is_changed_too(tmp_path, body, call, kept):
    layer = f"class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.d = nn.Dropout(0.5)\n\n    def forward(self, x):\n        {body}\n"
    source = f"import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n\n{layer}\n\nnet = Net().eval()\nx = torch.zeros(2)\n{call}\nprint(x.tolist())\n"
    (tmp_path / "source.py").write_text(source, encoding="utf-8")
    ledger = convert_code(tmp_path / "source.py", tmp_path / "port.py")
    assert ("_kept_by(self.d, x)" in (tmp_path / "port.py").read_text(encoding="utf-8")) is bool(kept)
    assert any("gives back its input, which is changed here, and Paddle a copy" in each.note for each in ledger.places) is (kept is None)


PROGRAM = """import torch


def head(x, c):
    y = x.expand(2, 3)
    if c == 1:
        return 1
    elif c == 2:
        return 2
    elif x.add_(1).sum() > 0:
        return y
    return 0


def repeated(x):
    z = 0
    y = x * 1
    while x.add_(1).sum() < 8:
        z = y.sum()
        y = x.expand(2, 3)
    return z


def quiet(x, n):
    y = x[n:]
    while x.sum() < 8:
        x.add_(1)
    if x.mul_(2).sum() > 3:
        x.sub_(1)
    return y


print(quiet(torch.zeros(3), 1).tolist())
for each in (lambda: head(torch.zeros(3), 0), lambda: repeated(torch.zeros(3))):
    try:
        print(each())
    except NotImplementedError:
        print("refused")
"""


def test_heads_of_statements_are_guarded_before_their_line(tmp_path):
    pytest.importorskip("paddle")
    (tmp_path / "source.py").write_text(PROGRAM, encoding="utf-8")
    convert_code(tmp_path / "source.py", tmp_path / "port.py")
    ran = subprocess.run([sys.executable, "port.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout == "[5.0, 5.0]\nrefused\nrefused\n"
