"""Ports that go another way than the reference, and have a fault besides: the fault is named, the other way is not."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from minilanguage import Laboratory, drawn, line_in
from minilanguage import named as lines

X = {"x": drawn(1, 12, 12), "kept": drawn(2, 12, 12) > 0}
P = {**{f"w{i}": drawn(10 + i, 12, 12) / 3 for i in range(6)}, **{f"b{i}": drawn(20 + i, 12) for i in range(6)}}


line_of = partial(line_in, __file__)


def layer(m, x, i):
    return m.linear(x, m.parameter(f"w{i}"), m.parameter(f"b{i}"))


def located(tmp_path, reference, candidate, *, fine=False):
    return Laboratory(tmp_path, reference, candidate, X, P).divergences(fine=fine)


# -- masks -------------------------------------------------------------------------------------------------------------------


def masked(number, *, inverted, axis=-1, scale=1.0):
    """Scores of which some are masked by a number, where a mask says so or says the contrary."""

    def run(m):
        scores = m.scale(layer(m, m.input(), 0), scale)  # line: scale
        kept = m.operation("logical_not" if inverted else "eq", (lambda k: ~k) if inverted else (lambda k: k == True), m.input("kept"))  # noqa: E712
        choose = (lambda s, k: np.where(k, number, s)) if inverted else (lambda s, k: np.where(k, s, number))
        scores = m.operation("where", lambda s, k: choose(s, k).astype(s.dtype), scores, kept)
        return layer(m, m.softmax(scores, axis=axis), 1)  # line: weights

    return run


def test_which_number_masks_and_which_way_round_is_no_matter(tmp_path):
    assert located(tmp_path, masked(-np.inf, inverted=True), masked(-1e9, inverted=False)) == []


def test_what_follows_a_mask_of_another_number_is_judged(tmp_path):
    found = located(tmp_path, masked(-1e30, inverted=True), masked(-1e9, inverted=False, axis=0))
    assert lines(found) == [line_of("weights")]
    assert found[0].confirmed


def test_a_mask_the_other_way_round_is_not_blamed_for_what_else_is_wrong(tmp_path):
    found = located(tmp_path, masked(-np.inf, inverted=True), masked(-1e9, inverted=False, scale=0.5))
    assert lines(found) == [line_of("scale")]


def test_another_mask_is_blamed_where_it_was_made(tmp_path):
    def program(kept):
        def run(m):
            scores = layer(m, m.input(), 0)
            mask = m.operation("greater", kept, m.input("kept"))  # line: mask
            scores = m.operation("where", lambda s, k: np.where(k, s, s.dtype.type(-1e9)), scores, mask)
            return layer(m, m.softmax(scores), 1)

        return run

    found = located(tmp_path, program(lambda k: k > 0), program(lambda k: k >= 0))
    assert lines(found) == [line_of("mask")]


# -- order -------------------------------------------------------------------------------------------------------------------


def test_parts_in_the_order_of_the_line_that_lists_them(tmp_path):
    def program(*order):
        def run(m):
            x = layer(m, m.input(), 0)
            parts = [m.tanh(layer(m, x, i)) for i in order]  # line: list
            x = m.concatenate(*parts)
            return m.operation("matmul", lambda a: a @ drawn(50, 36, 4).astype(a.dtype), x)

        return run

    found = located(tmp_path, program(1, 2, 3), program(1, 3, 2))
    assert lines(found) == [line_of("list")]
    assert found[0].what == "order"


def test_a_wrong_order_of_what_is_not_exactly_the_references_is_mended(tmp_path):
    """Nothing in another order is slightly wrong: the elements are right."""

    def program(factor, *, turned):
        def run(m):
            x = m.scale(layer(m, m.input(), 0), factor)
            halves = m.split(x, 2)
            x = m.concatenate(*(reversed(halves) if turned else halves))  # line: halves
            return layer(m, m.tanh(layer(m, x, 1)), 2)

        return run

    found = located(tmp_path, program(1.0, turned=False), program(1 + 2e-9, turned=True))
    assert lines(found) == [line_of("halves")]
    assert found[0].what == "order"
    assert found[0].confirmed


def test_a_permutation_that_is_left_out_is_missing(tmp_path):
    def program(*, turned):
        def run(m):
            x = layer(m, m.input(), 0)
            if turned:  # line: not taken
                x = m.transpose(x, 1, 0)
            return layer(m, m.tanh(layer(m, x, 1)), 2)

        return run

    found = located(tmp_path, program(turned=True), program(turned=False))
    assert lines(found) == [line_of("not taken")]
    assert found[0].what == "missing"


# -- steps -------------------------------------------------------------------------------------------------------------------


def test_a_step_without_effect_is_blamed_where_the_references_has_one(tmp_path):
    def program(limit):
        def run(m):
            x = layer(m, m.input(), 0)
            x = m.operation("clip", lambda a: np.clip(a, -limit, limit), x, limit=limit)  # line: clip
            return layer(m, m.tanh(layer(m, x, 1)), 2)

        return run

    assert lines(located(tmp_path, program(0.5), program(1e6))) == [line_of("clip")]


def test_a_step_at_the_wrong_place_is_told_there(tmp_path):
    def program(*, late):
        def run(m):
            bias = layer(m, m.input(), 3)
            x = layer(m, m.input(), 0)
            if not late:
                x = m.add(x, bias)
            x = m.softmax(x)
            if late:
                x = m.multiply(x, bias)  # line: late
            return layer(m, x, 1)

        return run

    assert lines(located(tmp_path, program(late=False), program(late=True))) == [line_of("late")]


def test_a_step_that_is_missing_in_the_line_of_the_next_is_told_there(tmp_path):
    def program(*, clipped):
        def run(m):
            x = m.scale(layer(m, m.input(), 0), 0.5)
            x = m.softmax(m.operation("clip", lambda a: np.maximum(a, 0.0), x) if clipped else x)  # line: both
            return layer(m, x, 1)

        return run

    assert lines(located(tmp_path, program(clipped=True), program(clipped=False))) == [line_of("both")]


def test_a_table_of_numbers_alone_is_blamed_where_it_was_computed_last(tmp_path):
    def reference(m):
        table = m.constant(np.outer(np.arange(12.0), np.arange(12.0) + 1) / 7)
        return layer(m, m.tanh(m.add(layer(m, m.input(), 0), table)), 1)

    def candidate(m):
        rows = m.operation("arange", lambda: np.arange(12.0))
        columns = m.operation("shift", lambda a: a + 2.0, rows)
        table = m.operation("outer", lambda a, b: np.outer(a, b) / 7, rows, columns)  # line: table
        return layer(m, m.tanh(m.add(layer(m, m.input(), 0), table)), 1)

    assert lines(located(tmp_path, reference, candidate)) == [line_of("table")]


@pytest.mark.parametrize("centred", [False, True])
def test_a_fault_among_steps_that_differ(tmp_path, centred):
    """The root and its inverse are the same; that the mean was taken off is not."""

    def reference(m):
        x = layer(m, m.input(), 0)
        squares = m.operation("mean", lambda a: (a**2).mean(-1, keepdims=True), x)
        x = m.operation("multiply", lambda a, v: a * v, x, m.operation("rsqrt", lambda v: 1 / np.sqrt(v + 1e-5), squares))
        return layer(m, m.tanh(x), 1)

    def candidate(m):
        x = layer(m, m.input(), 0)
        middle = m.operation("mean", lambda a: a.mean(-1, keepdims=True) * centred, x)  # line: middle
        apart = m.operation("subtract", lambda a, b: a - b, x, middle)  # line: apart
        squares = m.operation("mean", lambda a: (a**2).mean(-1, keepdims=True), apart)  # line: squares
        root = m.operation("sqrt", lambda v: np.sqrt(v + 1e-5), squares)
        return layer(m, m.tanh(m.operation("divide", lambda a, v: a / v, x, root)), 1)

    found = lines(located(tmp_path, reference, candidate))
    assert found == [] if not centred else found[0] in {line_of(name) for name in ("middle", "apart", "squares")}


def test_small_errors_that_add_up_are_followed_to_the_first(tmp_path):
    """Each is below what an operation is granted; it is the outputs that are known to differ."""

    def program(by):
        def run(m):
            x = m.input()
            for i in range(6):
                x = m.scale(layer(m, x, i), by)  # line: loop
            return x

        return run

    exact, off = program(1.0), program(1.0 + 6e-7)
    assert located(tmp_path / "coarse", exact, off) == []
    assert lines(located(tmp_path / "fine", exact, off, fine=True)) == [line_of("loop")]
    assert located(tmp_path / "same", exact, program(1.0), fine=True) == []


def test_what_hands_a_value_on_does_not_hide_that_it_is_right(tmp_path):
    """A dropout in eval mode makes no difference: whether a value mends what follows shows behind it."""

    def program(*, whole):
        def run(m):
            x = layer(m, m.input(), 0)
            if whole:  # line: before
                x = m.tanh(x)
            x = m.layer_norm(x, m.parameter("b1"), m.parameter("b2"))
            x = m.operation("dropout", np.copy, x)
            return layer(m, m.tanh(layer(m, x, 4)), 5)

        return run

    found = located(tmp_path, program(whole=True), program(whole=False))
    assert lines(found) == [line_of("before")]
    assert found[0].what == "missing"


def test_an_error_that_a_greater_value_hides_is_followed_to_where_it_was_made(tmp_path):
    """A residual path drowns the branch that is wrong, and what takes the path away shows it again."""

    def program(*, tanh):
        def run(m):
            large = m.scale(layer(m, m.input(), 0), 30.0)
            branch = m.scale(m.gelu(layer(m, m.input(), 1), tanh=tanh), 0.01)  # line: branch
            x = m.add(large, branch)
            pooled = m.operation("sum", lambda v: v.sum(1), m.add(x, m.scale(large, -0.99)))
            return m.operation("div", lambda v: v / 7.0, pooled)

        return run

    found = located(tmp_path, program(tanh=True), program(tanh=False))
    assert lines(found)[:1] == [line_of("branch")]
    assert found[0].confirmed
    assert located(tmp_path / "same", program(tanh=True), program(tanh=True)) == []


# -- biases of zeros ---------------------------------------------------------------------------------------------------------


def test_a_bias_of_zeros_is_no_idle_step_beside_a_pad_in_another_order(tmp_path):
    """A step of its own adds it, and the reference's only sum on the way has an effect."""
    given = {"x": drawn(1, 6, 12)}
    held = {"w": drawn(2, 12, 12), "zeros": np.zeros(12), "k": drawn(3, 14, 12)}

    def wide(m, x, before):
        return m.operation("pad", lambda v: np.pad(v, ((0, 0), (before, 2 - before))), x, pad=[before, 2 - before])  # line: padded

    def reference(m):
        x = m.linear(m.input(), m.parameter("w"), m.parameter("zeros"))
        return m.add(x, m.tanh(m.matmul(wide(m, x, 2), m.parameter("k"))))

    def candidate(before):
        def run(m):
            x = m.add(m.matmul(m.input(), m.parameter("w")), m.parameter("zeros"))
            return m.add(m.tanh(m.matmul(wide(m, x, before), m.parameter("k"))), x)

        return run

    assert Laboratory(tmp_path / "right", reference, candidate(2), given, held).divergences() == []
    found = Laboratory(tmp_path / "wrong", reference, candidate(1), given, held).divergences()
    assert lines(found)[:1] == [line_of("padded")]
    assert len(found) == 1
