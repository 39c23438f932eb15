"""A module that is called with the wrong value: its call is named, whatever else the same call makes right."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from minilanguage import Laboratory, drawn, line_in
from minilanguage import named as lines

X = {"x": drawn(1, 6, 12)}
P = {name: drawn(seed, 12, 12) / 3 for seed, name in enumerate(("attention0", "mlp0", "attention1", "mlp1"), 3)}

line_of = partial(line_in, __file__)


def norm(m, x, name):
    with m.module(name):
        squares = m.multiply(x, x)
        root = m.operation("rsqrt", lambda v: (v.mean(-1, keepdims=True) + 1e-5) ** -0.5, squares)
        return m.multiply(x, root)


def inner(m, x, name):
    with m.module(name):
        return m.tanh(m.matmul(x, m.parameter(name)))


def one_after_the_other(m):
    x = m.input()
    for number in range(2):
        x = m.add(x, inner(m, norm(m, x, f"before{number}"), f"attention{number}"))
        x = m.add(x, inner(m, norm(m, x, f"after{number}"), f"mlp{number}"))
    return x


def side_by_side(m):
    x = m.input()
    for number in range(2):
        beside = inner(m, norm(m, x, f"after{number}"), f"mlp{number}")  # line: handed
        x = m.add(x, inner(m, norm(m, x, f"before{number}"), f"attention{number}"))
        x = m.add(x, beside)
    return x


def test_the_call_that_hands_over_a_value_too_early_is_named(tmp_path):
    found = Laboratory(tmp_path, one_after_the_other, side_by_side, X, P).divergences()
    assert lines(found)[0] == line_of("handed")


def test_the_same_in_the_right_order_is_right(tmp_path):
    assert Laboratory(tmp_path, one_after_the_other, one_after_the_other, X, P).divergences() == []
