"""The line that is named where calls go deeper, or a helper is right elsewhere."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from paralign.locate.lines import choose, tables
from paralign.locate.lines.kinds import Kind
from paralign.locate.runs import construction

sys.path.insert(0, str(Path(__file__).parent))
from minilanguage import Laboratory, drawn, line_in
from minilanguage import lines as calls
from minilanguage import named as lines

X = {"x": drawn(1, 6, 12)}
P = {**{f"w{i}": drawn(10 + i, 12, 12) / 3 for i in range(6)}, **{f"b{i}": drawn(20 + i, 12) for i in range(6)}, "n": drawn(5, 12)}
VALID = np.arange(12) < np.array([12, 9, 7, 12, 8, 10])[:, None]


line_of = partial(line_in, __file__)


def layer(m, x, i):
    return m.linear(x, m.parameter(f"w{i}"), m.parameter(f"b{i}"))


def located(tmp_path, reference, candidate):
    return Laboratory(tmp_path, reference, candidate, X, P).divergences()


# -- a function more --------------------------------------------------------------------------------------------------------------


def part(m, x):
    y = m.tanh(layer(m, x, 1))
    y = layer(m, y, 2)
    return layer(m, m.tanh(y), 3)


def joined(m, x, share):
    y = m.tanh(x)
    return m.add(y, part(m, y) if share is None else m.scale(part(m, y), share))  # line: joined


@pytest.mark.parametrize("share", [None, 0.5])
def test_a_factor_that_is_missing_in_a_function_which_the_reference_has_not_is_missing_there(tmp_path, share):
    def reference(m):
        x = m.tanh(layer(m, m.input(), 0))
        x = m.add(x, m.scale(part(m, x), 0.5))
        return layer(m, x, 4)

    def candidate(m):
        x = layer(m, m.input(), 0)
        x = joined(m, x, share)
        return layer(m, x, 4)

    assert lines(located(tmp_path, reference, candidate)) == ([line_of("joined")] if share is None else [])


def normalised(m, x, mask, masked):
    x = m.tanh(layer(m, x, 0))
    y = m.exp(x)  # line: normalised
    return m.multiply(y, mask) if masked else y


def test_a_mask_that_is_missing_at_the_end_of_a_function_is_not_missing_where_that_is_called(tmp_path):
    def reference(m):
        mask = m.constant(VALID.astype(float))
        x = m.multiply(m.exp(m.tanh(layer(m, m.input(), 0))), mask)
        x = m.tanh(layer(m, x, 1))
        return layer(m, x, 2)

    def candidate(m):
        mask = m.constant(VALID.astype(float))
        x = normalised(m, m.input(), mask, masked=False)
        x = m.tanh(layer(m, x, 1))
        return layer(m, x, 2)

    assert lines(located(tmp_path, reference, candidate)) == [line_of("normalised")]


# -- steps without effect ---------------------------------------------------------------------------------------------------------


def kept(m, x, by):
    mask = m.constant(np.ones((6, 1)))
    return m.multiply(m.scale(x, by) if by else x, mask)  # line: kept


def test_a_factor_that_is_missing_before_a_mask_of_ones_is_missing_at_the_mask(tmp_path):
    def program(by):
        def run(m):
            x = layer(m, m.input(), 0)
            x = m.add(x, kept(m, m.tanh(layer(m, x, 1)), by))
            return layer(m, m.tanh(x), 2)

        return run

    assert lines(located(tmp_path / "1", program(1.25), program(None))) == [line_of("kept")]
    assert located(tmp_path / "2", program(1.25), program(1.25)) == []


def test_a_mask_cut_at_another_place_is_named_although_what_it_becomes_is_plain(tmp_path):
    def program(cut):
        def run(m):
            valid = m.constant(VALID)
            x = m.tanh(layer(m, m.input(), 0))
            x = m.operation("slice", lambda a: a[:, ::2], x, step=2)
            valid = m.operation("slice", cut, valid, step=cut(VALID).strides[1])  # line: cut
            x = m.multiply(x, m.operation("cast", lambda a: a.astype(x.array.dtype), valid))
            x = m.concatenate(x, x)
            return layer(m, m.tanh(x), 2)

        return run

    assert lines(located(tmp_path, program(lambda a: a[:, ::2]), program(lambda a: a[:, :6]))) == [line_of("cut")]


def test_a_plain_part_that_the_reference_takes_too_is_not_to_blame(tmp_path):
    def program(*, masked):
        def run(m):
            valid = m.constant(VALID)
            first = m.operation("slice", lambda a: a[:, :6], valid, stop=6)
            x = m.tanh(layer(m, m.input(), 0))
            x = m.operation("slice", lambda a: a[:, ::2], x, step=2)
            x = m.multiply(x, m.operation("cast", lambda a: a.astype(x.array.dtype), first))
            if masked:
                other = m.operation("slice", lambda a: a[:, ::2], valid, step=2)
                x = m.multiply(x, m.operation("cast", lambda a: a.astype(x.array.dtype), other))
            y = m.concatenate(x, x)  # line: unmasked
            return layer(m, m.tanh(y), 2)

        return run

    found = located(tmp_path, program(masked=True), program(masked=False))
    assert len(found) == 1
    assert "first" not in found[0].candidate.code


def test_a_part_that_is_the_whole_is_named_where_others_must_fit_it(tmp_path):
    def program(width):
        def run(m):
            x = layer(m, m.input(), 0)
            begun = m.operation("slice", lambda a: a[:, :width], x, stop=width)  # line: part
            angles = m.exp(m.scale(m.operation("arange", lambda: np.arange(width) / 7.0), -1.0))
            turned = m.multiply(begun, angles)
            rest = m.operation("slice", lambda a: a[:, width:], x, start=width)
            y = m.concatenate(turned, rest)
            return layer(m, m.tanh(y), 1)

        return run

    assert lines(located(tmp_path, program(8), program(12))) == [line_of("part")]


# -- what follows from a fault ----------------------------------------------------------------------------------------------------


def test_a_value_that_the_reference_takes_twice_is_not_at_the_wrong_place_the_second_time(tmp_path):
    def program(*, masked):
        def run(m):
            mask = m.constant(VALID.astype(float))
            x = m.tanh(layer(m, m.input(), 0))
            square = m.multiply(m.multiply(x, x), mask) if masked else m.multiply(x, x)  # line: square
            total = m.mean(square, 1)
            x = m.multiply(x, m.reshape(m.exp(total), 6, 1))
            x = m.multiply(x, mask)
            return layer(m, m.tanh(layer(m, x, 1)), 2)

        return run

    assert lines(located(tmp_path, program(masked=True), program(masked=False))) == [line_of("square")]


# -- modules of one's own ---------------------------------------------------------------------------------------------------------


class Smooth:
    """A matrix product and its bias, of inputs to a power that is set or given in the call."""

    def __init__(self, m, path, number, power=1.0):
        self.path, self.number, self.power = path, number, power
        m.built[path] = calls()[1:]

    def __call__(self, m, x, power=None):
        w, b = m.parameter(f"w{self.number}"), m.parameter(f"b{self.number}")
        with m.module(self.path):
            return m.add(self.kept(m, x, w) if power is None else self.told(m, x, w, power), b)

    def kept(self, m, x, w):
        return m.operation("smooth", lambda a, c: (a**self.power) @ c, x, w, power=self.power)

    def told(self, m, x, w, power):
        return m.operation("smooth", lambda a, c: (a**power) @ c, x, w, power=power)


def smoothed(m, x, number, power):
    return m.operation("smooth", lambda a, w, b: (a**power) @ w + b, x, m.parameter(f"w{number}"), m.parameter(f"b{number}"), power=power)


def of_both(m, first, second):
    return layer(m, m.tanh(second(m.tanh(first(m.exp(m.tanh(m.input())))))), 4)


def due(m):
    return of_both(m, lambda x: smoothed(m, x, 0, 1.0), lambda x: smoothed(m, m.exp(x), 1, 2.0))


@pytest.mark.parametrize("power", [2.0, 3.0])
def test_a_setting_that_a_module_keeps_is_wrong_where_the_module_was_constructed(tmp_path, power):
    def candidate(m):
        first = Smooth(m, "first", 0)
        second = Smooth(m, "second", 1, power)  # line: constructed
        return of_both(m, lambda x: first(m, x), lambda x: second(m, m.exp(x)))

    assert lines(located(tmp_path, due, candidate)) == ([line_of("constructed")] if power == 3.0 else [])


def test_a_setting_that_a_call_gives_is_wrong_where_it_is_called(tmp_path):
    def candidate(m):
        first, second = Smooth(m, "first", 0), Smooth(m, "second", 1)
        return of_both(
            m,
            lambda x: first(m, x, 1.0),
            lambda x: second(m, m.exp(x), 3.0),  # line: called
        )

    assert lines(located(tmp_path, due, candidate)) == [line_of("called")]


# -- numbers ----------------------------------------------------------------------------------------------------------------------


class Named:
    """What a line of a trace says."""

    def __init__(self, source):
        self.source, self.op = source, source


@pytest.mark.parametrize(("known", "line"), [([], "index"), (["starts"], "index"), (["places"], "starts")])
def test_numbers_of_which_the_reference_has_nothing_are_told_by_their_last_line(known, line):
    made = {"places": np.arange(9) / 7, "starts": np.arange(9) * 32.5, "index": np.arange(9) * 32.5 + 3}
    steps = [tables.Step(n, Named(name), value, [n - 1] if n else []) for n, (name, value) in enumerate(made.items())]
    ways = tables.Way([]), tables.Way(steps)
    pool = [made[name] for name in known]
    assert tables._first_wrong(ways, pool, steps[-1]).record.source == line


# -- a helper that is right with the very same arguments elsewhere ------------------------------------------------------------------


def curved(m, x, slope=0.1):
    return m.relu(x, slope)  # line: curved


def three(m, last):
    x = curved(m, layer(m, m.input(), 0))
    x = curved(m, layer(m, x, 1))
    x = layer(m, x, 2)
    x = curved(m, x) if last is None else curved(m, x, last)  # line: the third call
    return layer(m, x, 3)


def test_a_helper_that_is_right_elsewhere_with_the_same_arguments_is_called_wrongly(tmp_path):
    found = located(tmp_path, lambda m: three(m, 0.3), lambda m: three(m, None))
    assert lines(found) == [line_of("the third call")]


def test_a_helper_that_is_wrong_wherever_it_is_called_is_wrong_itself(tmp_path):
    def reference(m):
        x = m.relu(layer(m, m.input(), 0), 0.3)
        x = m.relu(layer(m, x, 1), 0.3)
        return layer(m, m.relu(layer(m, x, 2), 0.3), 3)

    assert lines(located(tmp_path, reference, lambda m: three(m, None)))[0] == line_of("curved")


# -- elements that a helper takes in another order ----------------------------------------------------------------------------------


def weighed(m, x, shares):
    return m.multiply(m.reshape(x, 6, 12), m.reshape(shares, 6, 12))  # line: weighed


def in_order(m, turned):
    x = layer(m, m.input(), 0)
    shares = m.tanh(layer(m, x, 1))
    x = weighed(m, x, shares)
    x = layer(m, x, 2)
    again = m.transpose(m.reshape(shares, 1, 3, 2, 12), 0, 2, 1, 3)
    x = weighed(m, x, shares if turned else again)  # line: the second order
    return layer(m, x, 3)


def test_a_helper_that_is_right_elsewhere_is_handed_elements_in_another_order(tmp_path):
    found = located(tmp_path, lambda m: in_order(m, False), lambda m: in_order(m, True))
    assert lines(found) == [line_of("the second order")]


# -- a mask that lets through too much ----------------------------------------------------------------------------------------------


def value(dtype, maker=None):
    return SimpleNamespace(record=SimpleNamespace(dtype=dtype), maker=maker)


def operation(kind, inputs, stack, **arguments):
    return SimpleNamespace(kind=kind, inputs=inputs, stack=stack, source=next(iter(stack), None), arguments=arguments)


def shares(axis=-1, due=-1, *, masked=True):
    """Shares whose inputs are right as far as they are not masked, with another result."""
    made = operation("logical_and", [], ("program.py:3",))
    mask = value("bool", operation("view", [value("bool", made)], ("program.py:7",)))  # as many as there are shares
    step = operation("where" if masked else "add", [mask, value("float64"), value("float64")], ("program.py:7",))
    own = operation("softmax", [value("float64", step)], ("program.py:8",), axis=axis)
    other = operation("softmax", [value("float64")], (), axis=due)
    return SimpleNamespace(kind=Kind.DIFFERENT, operation=own, other=other)


def test_a_mask_that_lets_through_too_much_is_named_where_it_is_made():
    assert choose._mask_behind(shares()) == "program.py:3"


def test_other_shares_are_named_themselves():
    assert choose._mask_behind(shares(axis=1)) is None, "along another axis"
    assert choose._mask_behind(shares(masked=False)) is None, "nothing is masked"


# -- a factor that seems to be extra ------------------------------------------------------------------------------------------------


def weighted(m, share, factor):
    x = layer(m, m.input(), 0)
    weight, x = m.tanh(layer(m, x, 1)), m.exp(m.tanh(layer(m, x, 2)))
    if factor is None:
        return layer(m, m.multiply(m.scale(weight, share), x), 3)
    return layer(m, m.scale(m.multiply(weight, m.scale(x, factor)), share), 3)


def test_a_factor_that_the_reference_has_too_is_not_confirmed_to_be_extra(tmp_path):
    found = located(tmp_path, lambda m: weighted(m, 0.5, None), lambda m: weighted(m, 0.5, 0.5))
    assert found
    assert not any(each.confirmed for each in found if each.what == "extra")


def test_a_factor_that_is_taken_twice_is_confirmed(tmp_path):
    def scaled(m, times):
        x = m.scale(m.exp(m.tanh(layer(m, m.input(), 0))), 0.3)
        return layer(m, x if times == 1 else m.scale(x, 0.3), 1)

    found = located(tmp_path, lambda m: scaled(m, 1), lambda m: scaled(m, 2))
    assert [(each.what, each.confirmed) for each in found] == [("extra", True)]


def test_a_factor_that_is_extra_is_confirmed(tmp_path):
    def doubled(m, factor):
        x = m.exp(m.tanh(layer(m, m.input(), 0)))
        return layer(m, x if factor is None else m.scale(x, factor), 1)

    found = located(tmp_path, lambda m: doubled(m, None), lambda m: doubled(m, 0.3))
    assert [(each.what, each.confirmed) for each in found] == [("extra", True)]


# -- what takes a mended value --------------------------------------------------------------------------------------------------------


class Part:
    """A value, an operation or a run, of what is said of it."""

    def __init__(self, **said):
        self.__dict__.update(said)


def test_what_takes_a_mended_value_does_not_show_that_its_lines_are_right():
    shape = {"record": Part(dtype="float32"), "users": []}
    fault, free = Part(number=1, kind="view", inputs=[]), Part(number=3, kind="matmul", inputs=[])
    wrong, other = Part(maker=fault, **shape), Part(maker=free, **shape)
    user = Part(number=2, kind="matmul", inputs=[wrong], outputs=[Part(maker=None, **shape)])
    fault.outputs, free.outputs = [wrong], [other]
    graph = Part(operations=[fault, user, free])
    run = Part(candidate=graph, takes_right=lambda _: True, is_right=lambda _: True)
    guilt = Part(repeats=[], replaced=set(), mended=None)
    passage = construction.Passage(run, guilt, fault, ("a.py:1",), alike=True)
    assert [operation.number for _, operation in passage.right] == [3]
