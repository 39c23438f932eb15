"""Operations of which no line of the user's code is known, as of a framework's own functions: no place in a search takes one for granted."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import minilanguage
from minilanguage import Laboratory, drawn

X = {"x": drawn(1, 6, 12), "kinds": drawn(3, 6, 12)}
P = {**{f"w{i}": drawn(10 + i, 12, 12) / 3 for i in range(6)}, **{f"b{i}": drawn(20 + i, 12) for i in range(6)}}


def layer(m, x, i):
    return m.linear(x, m.parameter(f"w{i}"), m.parameter(f"b{i}"))


def normed(m, x):
    return m.multiply(m.softmax(x), m.tanh(x))


def reference(m):
    x = layer(m, m.input(), 0)
    x = m.softmax(m.transpose(m.relu(x), 1, 0))
    x = m.transpose(normed(m, x), 1, 0)
    y = m.add(x, layer(m, x, 1))
    return layer(m, m.gelu(y), 2)


def without_first(m):
    x = layer(m, m.input(), 0)
    x = m.softmax(m.transpose(x, 1, 0))
    x = m.transpose(normed(m, x), 1, 0)
    y = m.add(x, layer(m, x, 1))
    return layer(m, m.gelu(y), 2)


def without_order(m):
    x = layer(m, m.input(), 0)
    x = m.transpose(m.softmax(m.relu(x)), 1, 0)
    x = m.transpose(normed(m, x), 1, 0)
    y = m.add(x, layer(m, x, 1))
    return layer(m, m.gelu(y), 2)


def without_residual(m):
    x = layer(m, m.input(), 0)
    x = m.softmax(m.transpose(m.relu(x), 1, 0))
    x = m.transpose(normed(m, x), 1, 0)
    return layer(m, m.gelu(layer(m, x, 1)), 2)


def without_last(m):
    x = layer(m, m.input(), 0)
    x = m.softmax(m.transpose(m.relu(x), 1, 0))
    x = m.transpose(normed(m, x), 1, 0)
    return layer(m, m.add(x, layer(m, x, 1)), 2)


def miswired(m):
    first = layer(m, m.input(), 0)
    x = m.softmax(m.transpose(m.relu(first), 1, 0))
    x = m.transpose(normed(m, x), 1, 0)
    y = m.add(first, layer(m, x, 1))
    return layer(m, m.gelu(y), 2)


@pytest.mark.parametrize("candidate", [without_first, without_order, without_residual, without_last, miswired])
def test_a_search_ends_with_operations_that_no_line_is_known_of(tmp_path, monkeypatch, candidate):
    known, chance = minilanguage.lines, random.Random(0)
    monkeypatch.setattr(minilanguage, "lines", lambda: () if chance.random() < share else known())
    for number, share in enumerate((1.0, *[0.5] * 5, *[0.25] * 5)):
        found = Laboratory(tmp_path / str(number), reference, candidate, X, P).divergences()
        assert found, share
