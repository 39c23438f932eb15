"""Signs that change items of lists and dictionaries, which may hold numbers or tensors."""

from __future__ import annotations

import subprocess
import sys

import pytest

from paralign.port.drafts.converted import convert_code

pytestmark = pytest.mark.programs

HEAD = "from collections import Counter, defaultdict\n\nimport numpy as np\nimport torch\n\n"

#: functions that give a tensor whose other name was changed
HELD = """def empty_list():
    t, values = torch.zeros(2), []
    values.append(t)
    values[0] += 1
    return t


def empty_dictionary():
    t, values = torch.zeros(2), {}
    values[0] = t
    values[0] += 1
    return t


def nothing_yet(count=2):
    t, values = torch.zeros(2), [None] * count
    values[0] = t
    values[0] += 1
    return t


def zeros_first():
    t, values = torch.zeros(2), [0, 0]
    values[0] = t
    values[0] += 1
    return t


def counted_first():
    t, values = torch.zeros(2), defaultdict(float)
    values["a"] = t
    values["a"] += 1
    return t


def repeated():
    t = torch.zeros(2)
    values = [t] * 2
    values[1] += 1
    return t


def shown():
    values = [torch.zeros(2), torch.zeros(2)]
    first = values[0]
    for i in range(2):
        values[i] += torch.ones(2)
    return first


def added_to_number():
    values = [0.0, 0.0]
    values[0] += torch.ones(2)
    first = values[0]
    values[0] += 1
    return first


def filled(values, t):
    values[0] = t


def filled_elsewhere():
    t, values = torch.zeros(2), [0]
    filled(values, t)
    values[0] += 1
    return t


def bump(acc):
    acc[0] += 1


acc = [0, 0]
acc[1] += 2


def given():
    t = torch.zeros(2)
    bump([t])
    return t


"""

RUN = "for each in ({names}):\n    print(each.__name__, each().tolist())\n"


def _printed(folder, name):
    return subprocess.run([sys.executable, name], cwd=folder, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.paddle
@pytest.mark.torch
def test_a_tensor_that_was_stored_among_numbers_is_changed(tmp_path):
    names = (
        "shown, empty_list, empty_dictionary, nothing_yet, zeros_first, counted_first, repeated, added_to_number, filled_elsewhere, given"
    )
    (tmp_path / "source.py").write_text(HEAD + HELD + RUN.format(names=names), encoding="utf-8")
    assert not convert_code(tmp_path / "source.py", tmp_path / "port.py").left
    printed = _printed(tmp_path, "source.py")
    assert _printed(tmp_path, "port.py") == printed
    assert len(printed) == 10


@pytest.mark.parametrize(
    ("lines", "numbers"),
    [
        ("values = [0] * n; values[i] += 1", True),
        ("values = n * [0.5]; values[i] += x.item(); print(sum(values)); return values", True),
        ("values = Counter(); values[i] += x.size(0)", True),
        ("values = np.zeros(n); keep(values); values[i] += x[i]", True),
        ("values = None; values = {k: 0 for k in n}; values[i] -= 1", True),
        ("values, total = [0, 0], 0; values[i] += 1", True),
        ("values = dict.fromkeys(n, 0); values[i] += len(n)", True),
        ("values = []; values.append(x); values[i] += 1", False),
        ("values = {}; values[i] = x; values[i] += 1", False),
        ("values = {}; values[i] += 1", True),
        ("values = {**n}; values[i] += 1", False),
        ("values = [None]; values[i] += 1", False),
        ("values = [0]; keep(values); values[i] += 1", False),
        ("values = other = [0]; n.values = values; values[i] += 1", False),
        ("values = [0]; values += n; values[i] += 1", False),
        ("values = [0]; values[:] = n; values[i] += 1", False),
        ("values = [0]; values.extend(n); values[i] += 1", False),
        ("values = [0]; values[i] += x", False),
        ("run = lambda values: keep(values); values = [0]; values[i] += 1", False),
        ("for values in n: values[i] += 1", False),
        ("n[i] += 1", False),
    ],
)
def test_what_holds_numbers_alone_is_changed_as_it_stands(tmp_path, lines, numbers):
    source = f"{HEAD}n = [0]\n\n\ndef run(n, i, x: torch.Tensor):\n    {lines}\n"
    (tmp_path / "source.py").write_text(source, encoding="utf-8")
    convert_code(tmp_path / "source.py", tmp_path / "port.py", force=True)
    assert ("_added_to_item(" not in (tmp_path / "port.py").read_text(encoding="utf-8")) is numbers
