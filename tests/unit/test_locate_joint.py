"""One wrong line at many calls is shown by one run; what it does not explain is found."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from minilanguage import Laboratory, drawn, line_in
from minilanguage import named as lines

BLOCKS = 9
SHAPES = {"w": (8, 8), "b": (8,), "v": (8, 8), "c": (8,)}
X = {"x": drawn(1, 6, 8)}
P = {f"{name}{i}": drawn(100 + 10 * i + k, *shape) / 3 for i in range(BLOCKS) for k, (name, shape) in enumerate(SHAPES.items())}
P["head"] = drawn(32, 8, 5)

line_of = partial(line_in, __file__)


def activation(m, x, path, slope=0.0):
    """A layer of the framework, which all blocks construct at one line."""
    with m.module(path, "ReLU"):
        return m.relu(x, slope)


def branch(m, x, i, slope=0.0):
    y = activation(m, m.linear(x, m.parameter(f"w{i}"), m.parameter(f"b{i}")), f"{i}.act", slope)
    return m.linear(y, m.parameter(f"v{i}"), m.parameter(f"c{i}"))


def network(m):
    x = m.input()
    for i in range(BLOCKS):
        x = activation(m, m.add(branch(m, x, i), x), f"{i}.act")
    return m.matmul(x, m.parameter("head"))


def early(m, blocks, others=()):
    """Blocks that take the last activation before the sum, and others with a leaky first one."""
    x = m.input()
    for i in range(BLOCKS):
        y = branch(m, x, i, 0.3 if i in others else 0.0)
        x = m.add(activation(m, y, f"{i}.act"), x) if i in blocks else activation(m, m.add(y, x), f"{i}.act")  # line: early
    return m.matmul(x, m.parameter("head"))


def searched(tmp_path, blocks, others=()):
    laboratory = Laboratory(tmp_path, network, partial(early, blocks=blocks, others=others), X, P)
    found, notes = laboratory.guilty()
    return laboratory, found, notes


@pytest.mark.parametrize("blocks", [{1, 2, 4, 5, 7, 8}, set(range(BLOCKS))], ids=["some blocks", "all blocks"])
def test_a_line_that_is_wrong_in_many_blocks_costs_hardly_more_than_in_two(tmp_path, blocks):
    few, *_ = searched(tmp_path / "few", {1, 2})
    laboratory, found, notes = searched(tmp_path / "many", blocks)
    assert laboratory.spent <= few.spent + 3
    assert laboratory.spent <= 14
    assert notes == []
    assert all(each.confirmed for each in found)
    assert found[0].mended.wrong_outputs() == []
    assert line_of("early") in lines(laboratory.divergences())


@pytest.mark.parametrize("other", [4, 6])
def test_another_fault_among_these_blocks_is_found(tmp_path, other):
    """In a block with both faults, and alone: the values put behind it must not hide it."""
    laboratory, found, _ = searched(tmp_path, {1, 2, 4, 5, 7, 8}, {other})
    leaky = [o.number for o in laboratory.judgement().candidate.operations if o.arguments.get("slope") == 0.3]
    assert leaky
    assert set(leaky) <= {each.trial.value.maker.number for each in found}
    assert line_of("early") in lines(laboratory.divergences())


def test_right_calls_of_the_line_are_no_further_places(tmp_path):
    blocks = {1, 2, 4, 5, 7, 8}
    laboratory, found, _ = searched(tmp_path, blocks)
    graph = laboratory.judgement().candidate
    sums = [o.number for o in graph.operations if o.kind == "add"]
    right = {number for i, number in enumerate(sums) if i not in blocks}
    told = {o.number for each in found for o in [each.trial.value.maker, *each.repeats]}
    assert told.isdisjoint(right)
