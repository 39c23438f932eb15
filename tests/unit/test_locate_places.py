"""Which line is named where a step is missing, stands in another's place, or works on a part of what the reference does at once."""

from __future__ import annotations

import math
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from paralign.capture import Capture, CaptureWriter
from paralign.capture.digest import moments
from paralign.locate.lines import missing_step, tables
from paralign.locate.lines.idle_layer import idle_layer
from paralign.locate.source.statements import behind_loop
from paralign.model import Manifest

sys.path.insert(0, str(Path(__file__).parent))
from minilanguage import Laboratory, drawn, line_in
from minilanguage import named as lines

X = {"x": drawn(1, 6, 12), "kinds": drawn(3, 6, 12)}
P = {**{f"w{i}": drawn(10 + i, 12, 12) / 3 for i in range(6)}, **{f"b{i}": drawn(20 + i, 12) for i in range(6)}, "row": drawn(5, 1, 12)}


line_of = partial(line_in, __file__)


def layer(m, x, i):
    return m.linear(x, m.parameter(f"w{i}"), m.parameter(f"b{i}"))


def located(tmp_path, reference, candidate):
    return Laboratory(tmp_path, reference, candidate, X, P).divergences()


# -- in another's place ----------------------------------------------------------------------------------------------------------


def test_what_stands_in_the_place_of_another_is_different_though_the_reference_reshapes_its_result(tmp_path):
    def reference(m):
        x = m.reshape(m.gelu(layer(m, m.input(), 0)), 72)
        return layer(m, m.reshape(x, 6, 12), 1)

    def candidate(m):
        x = layer(m, m.input(), 0)
        x = m.relu(x)  # line: activation
        return layer(m, x, 1)

    found = located(tmp_path, reference, candidate)
    assert lines(found) == [line_of("activation")]
    assert found[0].what == "different"


def gated(m, x, share):
    gate = m.tanh(share)
    return m.multiply(x, gate)


def ungated(m, x, share):
    m.tanh(share)
    return x  # line: given back


def test_a_step_that_is_missing_at_the_end_of_a_function_is_missing_where_that_gives_back(tmp_path):
    def program(gate):
        def run(m):
            x = layer(m, m.input(), 0)
            y = gate(m, x, layer(m, x, 1))
            return layer(m, m.tanh(layer(m, y, 2)), 3)

        return run

    found = located(tmp_path, program(gated), program(ungated))
    assert lines(found) == [line_of("given back")]
    assert found[0].what == "missing"


def test_a_term_that_is_missing_in_a_sum_is_missing_in_the_line_of_the_sum(tmp_path):
    def reference(m):
        word, place = layer(m, m.input(), 0), layer(m, m.input(), 1)
        kind = layer(m, m.input("kinds"), 2)
        x = m.add(word, kind)
        x = m.add(x, place)
        return layer(m, m.tanh(layer(m, x, 3)), 4)

    def candidate(m):
        word = layer(m, m.input(), 0)
        layer(m, m.input(), 1)
        kind = layer(m, m.input("kinds"), 2)
        x = m.add(word, kind)  # line: sum
        return layer(m, m.tanh(layer(m, x, 3)), 4)

    assert lines(located(tmp_path, reference, candidate)) == [line_of("sum")]


def test_a_step_that_shares_its_line_is_missing_in_that_line(tmp_path):
    def reference(m):
        x = layer(m, m.input(), 0)
        y = layer(m, m.tanh(x), 1)
        return layer(m, m.tanh(y), 2)

    def candidate(m):
        x = layer(m, m.input(), 0)
        y = layer(m, x, 1)  # line: shared
        return layer(m, m.tanh(y), 2)

    assert lines(located(tmp_path, reference, candidate)) == [line_of("shared")]


# -- constants of simple numbers -------------------------------------------------------------------------------------------------


def chosen(m, x, places):
    return m.operation("take_along_axis", lambda a, i: np.take_along_axis(a, i[:, None].astype(int), 1)[:, 0], x, places)


def best(m, x):
    return m.operation("argmax", lambda a: a.argmax(1), x)


@pytest.mark.parametrize("fault", ["index", "values", ""])
def test_a_constant_index_in_place_of_a_computed_one_is_wrong_where_it_is_made(tmp_path, fault):
    def reference(m):
        x = layer(m, m.input(), 0)
        return chosen(m, layer(m, m.tanh(x), 1), best(m, x))

    def candidate(m):
        x = layer(m, m.input(), 0)
        places = best(m, x) if fault != "index" else m.operation("argmax", lambda a: 0 * a.argmax(1) + 3, x)  # line: constant
        y = m.relu(x) if fault == "values" else m.tanh(x)  # line: values
        pairs = m.operation("stack", lambda a: np.stack([np.arange(6), a], 1), places)
        return m.operation("gather_nd", lambda a, at: a[tuple(at.T.astype(int))], layer(m, y, 1), pairs)

    wanted = {"index": "constant", "values": "values"}
    assert lines(located(tmp_path, reference, candidate)) == ([line_of(wanted[fault])] if fault else [])


# -- where generators run -----------------------------------------------------------------------------------------------------------


def test_a_generator_runs_in_the_line_that_it_is_written_in(tmp_path):
    def program(m):
        x = m.input()
        found = list(layer(m, each, 0) for each in [x])  # noqa: C400 # line: generator
        return m.tanh(found[0])

    first = Laboratory(tmp_path, program, program, X, P).judgement().candidate.operations[0]
    assert first.stack[1] == line_of("generator")
    assert first.stack.count(line_of("generator")) == 1


# -- the same values in another shape --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("faulty", [False, True])
def test_what_one_side_expands_and_the_other_broadcasts_is_no_fault(tmp_path, faulty):
    def reference(m):
        return layer(m, m.tanh(m.add(layer(m, m.input(), 0), m.exp(m.parameter("row")))), 1)

    def candidate(m):
        row = m.exp(m.operation("view", lambda r: np.broadcast_to(r, (6, 12)).copy(), m.parameter("row"), shape=[6, 12]))
        x = m.add(layer(m, m.input(), 0), row)
        x = m.relu(x) if faulty else m.tanh(x)  # line: after
        return layer(m, x, 1)

    found = located(tmp_path, reference, candidate)
    assert lines(found) == ([line_of("after")] if faulty else [])


def test_a_layer_of_two_operations_is_right_where_its_bias_is_added(tmp_path):
    """Whether a value mends a layer shows behind its bias, however small that is."""

    def reference(m):
        x = m.exp(m.input())
        return layer(m, m.tanh(layer(m, x, 0)), 1)

    def candidate(m):
        x = m.tanh(m.input())  # line: before the layer
        x = m.add(m.matmul(x, m.parameter("w0")), m.parameter("b0"))
        return layer(m, m.tanh(x), 1)

    assert lines(located(tmp_path, reference, candidate)) == [line_of("before the layer")]


def test_elements_that_the_reference_has_in_several_orders_are_due_as_the_same_step_leaves_them(tmp_path):
    def program(*shape):
        def run(m):
            x = layer(m, m.input(), 0)
            x = m.reshape(x, *shape)  # line: shape
            x = m.transpose(x, 0, 2, 1)
            x = m.reshape(x, 6, 12)
            return layer(m, m.tanh(layer(m, x, 1)), 2)

        return run

    found = located(tmp_path, program(6, 4, 3), program(6, 2, 6))
    assert lines(found) == [line_of("shape")]
    assert found[0].what == "order"


@pytest.mark.parametrize("axes", [(0, 1, 2), None])
def test_parts_taken_of_elements_in_an_earlier_order_are_wrong_where_that_is_changed(tmp_path, axes):
    def program(axes):
        def run(m):
            parts = m.split(layer(m, m.input(), 0), 2, axis=0)
            x = m.concatenate(m.tanh(layer(m, parts[0], 1)), m.gelu(layer(m, parts[1], 2)), axis=0)
            if axes is not None:  # line: nothing done
                x = m.reshape(x, 2, 3, 12)
                x = m.transpose(x, *axes)  # line: exchanged
                x = m.reshape(x, 6, 12)
            parts = m.split(x, 2, axis=0)
            return m.concatenate(m.tanh(layer(m, parts[0], 3)), m.tanh(layer(m, parts[1], 4)), axis=0)

        return run

    found = located(tmp_path, program((1, 0, 2)), program(axes))
    assert lines(found)[0] == line_of("nothing done" if axes is None else "exchanged")
    assert found[0].what == ("missing" if axes is None else "order")


def block(m, x, i):
    y = m.tanh(layer(m, x, i))
    return m.add(x, m.gelu(layer(m, y, i + 1)))


def within(m, *, whole=True):
    x = m.tanh(layer(m, m.input(), 0))
    x = m.exp(x) if whole else x  # line: left out
    x = m.scale(x, 0.3)
    x = block(m, x, 1)
    return block(m, x, 3)


def test_a_missing_step_is_looked_for_as_deep_in_calls_as_the_candidate_has_what_is_around(tmp_path):
    def around(m):
        return within(m)

    def outer(m):
        return around(m)

    found = located(tmp_path, outer, lambda m: within(m, whole=False))
    assert lines(found) == [line_of("left out")]


def weighed(m, x):
    weight = m.tanh(layer(m, x, 1))
    return m.multiply(x, weight)


def unweighed(m, x):
    m.tanh(layer(m, x, 1))
    return x  # line: could use it


def test_what_is_made_for_nothing_is_missing_where_it_could_be_used_first(tmp_path):
    def program(gate):
        def run(m):
            x = m.relu(layer(m, m.input(), 0))
            x = gate(m, x)
            return layer(m, m.tanh(layer(m, x, 2)), 3)

        return run

    found = located(tmp_path, program(weighed), program(unweighed))
    assert lines(found) == [line_of("could use it")]


def test_a_layer_that_is_never_called_is_known_by_the_parameters_of_the_step_after_the_first(tmp_path):
    def program(gated):
        def run(m):
            x = m.relu(layer(m, m.input(), 0))
            x = m.multiply(x, m.tanh(layer(m, m.mean(x, axis=0), 1))) if gated else x
            return layer(m, m.tanh(layer(m, x, 2)), 3)

        return run

    judgement = Laboratory(tmp_path, program(gated=True), program(gated=False), X, P).judgement()
    first = next(o for o in judgement.reference.operations if o.kind == "mean")
    users = [o for o in judgement.candidate.operations if any(p in first.inputs for v in o.inputs for p in judgement.partners(v))]
    judgement.homes = {"w1": "gate.inner.w1", "b1": "gate.inner.b1"}
    assert [idle_layer(judgement, first, user) for user in users] == ["gate"]
    judgement.homes = {}
    assert not idle_layer(judgement, first, users[0])


LOOP = """\
def run(xs):
    for x in xs:
        if x:
            first(x)
    if xs:
        second(xs)
    return xs
"""


@pytest.mark.parametrize(("first", "second", "found"), [(4, 6, 5), (4, 7, 7), (2, 5, 5), (3, 4, None), (6, 7, None), (1, 2, None)])
def test_behind_a_loop_is_the_statement_with_the_line_that_comes_then(tmp_path, first, second, found):
    path = tmp_path / "loop.py"
    path.write_text(LOOP, encoding="utf-8")
    assert behind_loop(f"{path}:{first}", f"{path}:{second}") == (None if found is None else f"{path}:{found}")
    assert behind_loop(f"{path}:{first}", f"{path}.other:{second}") is None


# -- parts -----------------------------------------------------------------------------------------------------------------------


def at_once(m):
    x = layer(m, m.input(), 0)
    return layer(m, m.scale(m.exp(m.scale(x, 0.5)), 2.0), 1)


def one_by_one(number=0.5, *, other=False):
    def run(m):
        first, second = m.split(layer(m, m.input(), 0), 2)
        first = m.scale(m.exp(m.scale(first, 0.5)), 2.0)
        second = m.scale(second, number)  # line: number
        second = m.tanh(second) if other else m.exp(second)  # line: function
        second = m.scale(second, 2.0)
        return layer(m, m.concatenate(first, second), 1)

    return run


def test_parts_that_are_computed_one_by_one_are_right(tmp_path):
    assert located(tmp_path, at_once, one_by_one()) == []


@pytest.mark.parametrize(("candidate", "where"), [(one_by_one(other=True), "function"), (one_by_one(0.25), "number")])
def test_of_parts_that_are_computed_one_by_one_the_wrong_one_is_named(tmp_path, candidate, where):
    assert lines(located(tmp_path, at_once, candidate)) == [line_of(where)]


def attention(m, q, k, v):
    def run(a, b, c):
        scores = a @ b.swapaxes(-1, -2) / a.dtype.type(math.sqrt(a.shape[-1]))
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        return ((powers / powers.sum(-1, keepdims=True)) @ c).astype(a.dtype)

    return m.operation("attention", run, q, k, v)


def heads(m):
    return [m.reshape(layer(m, m.input(), i), 1, 2, 6, 6) for i in range(3)]


def at_once_attended(m):
    return layer(m, m.reshape(attention(m, *heads(m)), 6, 12), 4)


@pytest.mark.parametrize("where", ["scale", "weights", "product"])
def test_attention_by_hand_is_followed_through_the_steps_of_one_operation(tmp_path, where):
    def candidate(m):
        q, k, v = heads(m)
        scores = m.matmul(q, m.transpose(k, 0, 1, 3, 2))  # line: product
        if where != "product":  # of a scale that is left out, the product's line is where it belongs
            scores = m.scale(scores, 0.3 if where == "scale" else 1 / math.sqrt(6))  # line: scale
        weights = m.softmax(scores, axis=-2 if where == "weights" else -1)  # line: weights
        return layer(m, m.reshape(m.matmul(weights, v), 6, 12), 4)

    assert lines(located(tmp_path, at_once_attended, candidate)) == [line_of(where)]


def test_a_right_attention_by_hand_is_right(tmp_path):
    def candidate(m):
        q, k, v = heads(m)
        weights = m.softmax(m.scale(m.matmul(q, m.transpose(k, 0, 1, 3, 2)), 1 / math.sqrt(6)))
        return layer(m, m.reshape(m.matmul(weights, v), 6, 12), 4)

    assert located(tmp_path, at_once_attended, candidate) == []


# -- tables that are filled ------------------------------------------------------------------------------------------------------


def test_a_table_filled_half_is_right_where_the_reference_has_its_half():
    table = np.zeros((4, 6))
    table[:, ::2] = drawn(7, 4, 3)
    whole = table.copy()
    whole[:, 1::2] = drawn(8, 4, 3)
    way = tables.Way([])
    steps = [tables.Step(0, None, np.zeros((4, 6)), []), tables.Step(1, None, table, [0])]
    way.steps += steps
    assert tables._is_filled(way, [whole], steps[1])
    assert not tables._is_filled(way, [whole[:, ::-1]], steps[1])
    assert not tables._is_filled(way, [whole], steps[0])


def test_memory_that_nobody_has_written_to_holds_anything_and_is_read_nevertheless(tmp_path):
    drawn_by_chance = np.array([0x7F800001, 0x7F7FFFFF, 0xFF800000, 0x3F800000], np.uint32).view(np.float32)  # a signalling NaN
    captures = []
    for side in ("reference", "candidate"):
        with CaptureWriter(tmp_path / side, Manifest()) as writer:
            writer.add("step_0", drawn_by_chance, role="scalar", op="x", source="port.py:1")
            table = np.arange(4) / (3.0 if side == "reference" else 5.0)
            writer.add("step_1", table, role="scalar", op="y", source="port.py:2", digest=moments(table))
        captures.append(Capture.open(tmp_path / side))
    wanted = captures[1].records[1].digest
    assert len(tables.values(captures[0])) == 2
    assert tables.culprit(*captures, [wanted]) == "port.py:2"


# -- an operand that is left out ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("total", "first"), [("c1:12,1.0", "sum"), ("m3:12,1.0,0.9,0.9,1.5,-1.0,2.0,1.9,0.2", "add")])
def test_an_operand_was_left_out_where_the_other_is_taken_though_the_result_tells_nothing(total, first):
    telling = "m3:12,2.0,0.5,0.8,2.0,-2.0,2.0,1.5,0.1"
    x, weights, due, pooled = (
        SimpleNamespace(digest=text, maker=None, unmasked=None, record=SimpleNamespace(dtype="float32", attrs={}))
        for text in (telling, telling, telling, total)
    )
    made = SimpleNamespace(kind="sum", inputs=[weights], outputs=[pooled], stack=("model.py:3",))
    user = SimpleNamespace(kind="add", inputs=[x, pooled], outputs=[], stack=("model.py:4",))
    pooled.maker = made
    judgement = SimpleNamespace(partners=lambda value: [due] if value is weights else [])
    missing = SimpleNamespace(kind="multiply", inputs=[SimpleNamespace(digest=telling), due])
    assert missing_step.taken_plainly(judgement, missing, user).kind == first


def test_another_way_to_do_what_the_reference_does_with_the_operand_is_no_place_for_it(tmp_path):
    def reference(m):
        q, k = layer(m, m.input(), 0), m.tanh(layer(m, m.input(), 1))
        gate = m.mean(m.multiply(q, k), axis=0)
        return layer(m, m.multiply(q, m.exp(gate)), 2)

    def candidate(m):
        q, k = layer(m, m.input(), 0), m.tanh(layer(m, m.input(), 1))
        gate = m.mean(k, axis=0)  # line: without q
        return layer(m, m.operation("scaled", lambda x, y: x * y, q, m.exp(gate)), 2)

    assert lines(located(tmp_path, reference, candidate)) == [line_of("without q")]


def test_a_step_at_the_wrong_place_is_named_there_in_all_rounds(tmp_path):
    def reference(m):
        x, mask = m.input(), m.exp(m.given("", drawn(8, 6, 12)))
        for i in range(2):
            weights = m.softmax(m.add(layer(m, x, 2 * i), mask))
            x = m.multiply(x, m.tanh(weights))
        return x

    def candidate(m):
        x, mask = m.input(), m.exp(m.given("", drawn(8, 6, 12)))
        for i in range(2):
            weights = m.softmax(layer(m, x, 2 * i))
            weights = m.multiply(weights, mask)  # line: behind
            x = m.multiply(x, m.tanh(weights))
        return x

    found = located(tmp_path, reference, candidate)
    assert lines(found)[:1] == [line_of("behind")]


def test_a_sum_that_is_left_out_is_no_step_at_the_wrong_place_though_others_use_its_terms(tmp_path):
    def masked(m, x, mask):
        return m.multiply(x, mask)

    def reference(m):
        x, mask = m.tanh(layer(m, m.input(), 0)), m.given("", np.arange(12.0) + 2)
        x = m.add(x, m.tanh(m.add(m.matmul(x, m.parameter("w1")), m.parameter("b1"))))
        return m.add(masked(m, x, mask), m.multiply(m.mean(masked(m, x, mask), axis=0), x))

    def candidate(m):
        x, mask = m.tanh(layer(m, m.input(), 0)), m.given("", np.arange(12.0) + 2)
        x = m.tanh(layer(m, x, 1))  # line: without the way around
        return m.add(masked(m, x, mask), m.multiply(m.mean(masked(m, x, mask), axis=0), x))

    assert lines(located(tmp_path, reference, candidate))[:1] == [line_of("without the way around")]


@pytest.mark.parametrize("beside", [True, False])
def test_a_number_that_lacks_a_step_is_right_where_the_reference_steps_on_beside_its_use(tmp_path, beside):
    """Else it is wrong where it is made: the reference makes another number there."""

    def reference(m):
        x = layer(m, m.input(), 0)
        count = m.operation("sum", lambda a: 0 * a.sum(1, keepdims=True) + 9, x)
        if beside:
            apart = m.operation("subtract", np.subtract, m.operation("subtract", lambda a: a - 1, count), x)
        else:
            count = m.operation("subtract", lambda a: a - 1, count)
            apart = m.operation("subtract", np.subtract, count, x)
        return layer(m, m.multiply(x, m.tanh(apart)), 1)

    def candidate(m):
        x = layer(m, m.input(), 0)
        count = m.operation("sum", lambda a: 0 * a.sum(1, keepdims=True) + 9, x)  # line: count
        apart = m.operation("subtract", np.subtract, count, x)  # line: use of the count
        return layer(m, m.multiply(x, m.tanh(apart)), 1)

    found = located(tmp_path, reference, candidate)
    assert lines(found) == [line_of("use of the count" if beside else "count")]
