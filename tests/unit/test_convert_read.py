"""Parts that are read after their whole was changed in place."""

from __future__ import annotations

import ast

import pytest
from tests.unit.converted_programs import check_that_it_is_right_or_refused

from paralign.port.edits import read_parts as read_parts_module
from paralign.port.edits.read_parts import read_parts

pytestmark = pytest.mark.programs

PROGRAM = """import torch


class S:
    pass


def start(asks):
    return torch.arange(8.0).reshape(4, 2).requires_grad_(asks)


def whole_fill(asks):
    x = start(asks)
    y = x * 1
    r = y[0]
    y.fill_(2)
    return x, r * 3 + y.sum()


def whole_mul(asks):
    x = start(asks)
    y = x * 1
    r = y[0]
    y.mul_(2)
    return x, r * 3


def whole_iadd(asks):
    x = start(asks)
    y = x * 1
    r = y[0]
    y += 5
    return x, r * 3 + y.sum()


def whole_set(asks):
    x = start(asks)
    y = x * 1
    r = y[0]
    y[0] = 5
    return x, r * 3


def whole_view(asks):
    x = start(asks)
    y = x * 1
    r = y.view(-1)
    y.add_(1)
    return x, r * 3


def whole_t(asks):
    x = start(asks)
    y = x * 1
    r = y.t()
    y.zero_()
    return x, r * 3


def whole_expand(asks):
    x = start(asks)
    y = x[0] * 1
    r = y.expand(3, 2)
    y.mul_(4)
    return x, r * 3


def whole_attr(asks):
    x = start(asks)
    s = S()
    s.y = x * 1
    r = s.y[0]
    s.y.mul_(2)
    return x, r * 3


def elsewhere(asks):
    x = start(asks)
    y = x * 1
    a, b = y[0], y[1]
    y[2] = a + b
    return x, torch.cat([a, b, y[2]])


def recurrent(asks):
    x = start(asks)
    y = x * 1
    for t in range(1, 4):
        before = y[t - 1]
        y[t] = before * 2 + x[t]
    return x, y


def shape(asks):
    x = start(asks)
    y = x * 1
    r = y[0]
    y.mul_(2)
    return x, y * r.shape[0]


def bound_anew(asks):
    x = start(asks)
    y = x * 1
    r = y[0]
    total = r.sum()
    y = y * 2
    y.mul_(2)
    return x, y * r.mean() + total


def other(asks):
    x = start(asks)
    y = x * 1
    z = x * 2
    r = z[0]
    y.mul_(2)
    return x, y * r


def unasked(asks):
    x = start(asks)
    with torch.no_grad():
        y = x * 1
        r = y[0]
        y.mul_(2)
        kept = r * 3
    return x, x * kept


def view_shift(asks):
    x = start(asks)
    y = (x * 1).view(2, 4)
    r = y[0]
    y += 3
    return x, r * 3


def cloned(asks):
    x = start(asks)
    y = x * 1
    r = y[0:2]
    r = r.clone()
    y *= 2
    return x, r * 3


def looped(asks):
    x = start(asks)
    y = x * 1
    r = y[1]
    total = 0
    for k in range(2):
        total = total + r
        y.mul_(2)
    return x, total


"""

#: what raises where a gradient is asked for, what raises at all times, and what is right
ASKING = ["whole_fill", "whole_mul", "whole_set", "whole_t", "whole_attr", "looped", "view_shift"]
COPIES = ["whole_expand"]
RIGHT = ["whole_iadd", "whole_view", "elsewhere", "recurrent", "shape", "bound_anew", "other", "unasked", "cloned"]

RUN = """def ran(function, asks):
    try:
        x, out = function(asks)
        got = [round(float(each), 4) for each in out.flatten()]
        if asks:
            out.sum().backward()
            got += [round(float(each), 4) for each in x.grad.flatten()]
        return got
    except NotImplementedError as error:
        return "refused" if "read later" in str(error) else str(error)


for each in ({names}):
    for asks in (False, True):
        print(each.__name__, asks, ran(each, asks))
"""


def test_parts_are_right_after_a_change_or_the_change_raises(tmp_path):
    pytest.importorskip("paddle")
    pytest.importorskip("torch")
    names = [*ASKING, *COPIES, *RIGHT]
    check_that_it_is_right_or_refused(tmp_path, PROGRAM + RUN.format(names=", ".join(names)), asking=ASKING, always=COPIES)


def _found(lines):
    tree = ast.parse(f"def run(x, y, i):\n    {lines}\n")
    found = []

    def walk(node, around):
        around = [*around, node]
        if isinstance(node, ast.stmt):
            found.extend(each.kind for each in read_parts(node, around))
        for each in ast.iter_child_nodes(node):
            walk(each, around)

    walk(tree, [])
    return "".join(found)


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ("r = y[0]; y.mul_(2); r", "view"),
        ("r = y[0]; y *= i; r", "view"),
        ("r = y[i]; y.mul_(2); r", "index"),
        ("r = y[0]; y[:] = 1; r", "view"),
        ("r = y[0]; y[0].mul_(2); r", "view"),
        ("r = y.t(); y[i] = 1; r", "view"),
        ("a, b = y.chunk(2); y.exp_(); b", "split"),
        ("r = y.expand(2, 2); y.add_(1); r", "copy"),
        ("r = y['k'][0]; y['k'].mul_(2)", ""),
        ("r = y[0]; y.mul_(2)", ""),
        ("r = y[0]; r; y.mul_(2)", ""),
        ("r = y[0]; y.mul_(2); r = x; r", ""),
        ("r = y[0]; y[1] = 2; r", ""),
        ("r = y[0]; y.add_(1); r", ""),
        ("r = y[i]; y += 1; r", ""),
        ("a, b = y.chunk(2); y += 1; b", "split"),
        ("y = (x * 2).view(2, 2); r = y[0]; y += 1; r", "view"),
        ("r = y[0]; r = r.clone(); y.mul_(2); r", ""),
        ("r = y[0]; r = r[1:]; y.mul_(2); r", "view"),
        ("r = y[0]; y.data.mul_(2); r", ""),
        ("r = y[0]; y.t_(); r", ""),
        ("r = y[0]; y.mul(2); r", ""),
        ("r = y[0] * 2; y.mul_(2); r", ""),
        ("(lambda: y.mul_(2))()", ""),
    ],
)
def test_which_parts_are_read_after_their_whole_was_changed(lines, kind):
    assert _found(lines) == kind


def test_the_methods_of_a_class_are_read_once(monkeypatch):
    counted = []
    known = read_parts_module._parts_of
    monkeypatch.setattr(read_parts_module, "_parts_of", lambda scope: counted.append(scope) or known(scope))
    methods = "".join(f"    def m{at}(self, x):\n        self.p{at} = self.w[0]\n        self.w.add_(x)\n\n" for at in range(40))
    tree = ast.parse(f"class N:\n{methods}")
    owner = tree.body[0]
    found = [read_parts(each.body[-1], [tree, owner, each, each.body[-1]]) for each in owner.body]
    assert all(found)
    assert len(counted) <= 3 * len(found)
