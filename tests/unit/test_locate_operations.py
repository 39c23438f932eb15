"""Faults planted in small programs are found, confirmed and traced to their lines; other ways of computing the same are not."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from minilanguage import Laboratory, drawn, line_in
from minilanguage import named as lines

X = {"x": drawn(1, 6, 8)}
P = {
    **{f"w{i}": drawn(10 + i, 8, 8) / 3 for i in range(6)},
    **{f"b{i}": drawn(20 + i, 8) for i in range(6)},
    "gamma": 1 + drawn(30, 8) / 5,
    "beta": drawn(31, 8),
    "head": drawn(32, 8, 5),
}


line_of = partial(line_in, __file__)


def layer(m, x, i):
    return m.linear(x, m.parameter(f"w{i}"), m.parameter(f"b{i}"))


def network(m):
    x = m.input()
    x = m.relu(layer(m, x, 0))
    x = m.layer_norm(x, m.parameter("gamma"), m.parameter("beta"))
    x = m.tanh(layer(m, x, 1))
    x = m.add(x, layer(m, x, 2))
    return m.matmul(x, m.parameter("head"))


def located(tmp_path, reference, candidate, **options):
    laboratory = Laboratory(tmp_path, reference, candidate, X, P, **options)
    return laboratory.divergences()


# -- no fault ----------------------------------------------------------------------------------------------------------------


def unfused(m):
    x = m.input()
    x = m.relu(m.add(m.matmul(x, m.parameter("w0")), m.parameter("b0")))
    x = m.layer_norm(x, m.parameter("gamma"), m.parameter("beta"))
    x = m.tanh(m.add(m.matmul(x, m.parameter("w1")), m.parameter("b1")))
    x = m.add(x, m.add(m.matmul(x, m.parameter("w2")), m.parameter("b2")))
    return m.matmul(x, m.parameter("head"))


def with_moves(m):
    x = m.copy(m.input())
    x = m.reshape(m.relu(layer(m, m.reshape(x, 3, 2, 8), 0)), 6, 8)
    x = m.transpose(m.transpose(x, 1, 0), 1, 0)
    x = m.layer_norm(x, m.parameter("gamma"), m.parameter("beta"))
    x = m.scale(m.tanh(layer(m, x, 1)), 1.0)
    x = m.add(layer(m, x, 2), x)
    return m.copy(m.matmul(x, m.parameter("head")))


def other_order(m):
    head, last = m.parameter("head"), m.parameter("w2")
    x = m.relu(m.linear(m.input(), m.parameter("w0"), m.parameter("b0")))
    x = m.layer_norm(x, m.parameter("gamma"), m.parameter("beta"))
    x = m.tanh(layer(m, x, 1))
    y = m.linear(x, last, m.parameter("b2"))
    return m.matmul(m.add(y, x), head)


def transposed(m):
    """Computes with columns where the reference computes with rows."""
    x = m.transpose(m.input(), 1, 0)
    w = m.transpose(m.parameter("w0"), 1, 0)
    x = m.relu(m.transpose(m.add(m.transpose(m.matmul(w, x), 1, 0), m.parameter("b0")), 1, 0))
    x = m.layer_norm(m.transpose(x, 1, 0), m.parameter("gamma"), m.parameter("beta"))
    x = m.tanh(layer(m, x, 1))
    x = m.add(x, layer(m, x, 2))
    return m.matmul(x, m.parameter("head"))


def with_unused(m):
    m.exp(layer(m, m.input(), 5))
    return network(m)


@pytest.mark.parametrize("candidate", [network, unfused, with_moves, other_order, transposed, with_unused])
@pytest.mark.parametrize("exchanged", [False, True])
def test_other_ways_of_computing_the_same_are_not_guilty(tmp_path, candidate, exchanged):
    pair = (candidate, network) if exchanged else (network, candidate)
    laboratory = Laboratory(tmp_path, *pair, X, P)
    assert laboratory.judgement().wrong_outputs() == []
    assert laboratory.guilty() == ([], [])
    assert laboratory.spent == 0


def packed(m):
    x = m.input()
    w = np.concatenate([P["w0"], P["w1"], P["w2"]], 1)
    whole = m.matmul(x, m.given("packed", w, "parameter"))
    q, k, v = m.split(whole, 3)
    return m.matmul(m.softmax(m.matmul(q, m.transpose(k, 1, 0))), v)


def separate(m):
    x = m.input()
    q, k, v = (m.matmul(x, m.parameter(f"w{i}")) for i in range(3))
    return m.matmul(m.softmax(m.matmul(q, m.transpose(k, 1, 0))), v)


def test_packed_projections_are_those_that_are_separate(tmp_path):
    laboratory = Laboratory(tmp_path / "1", separate, packed, X, P, others={**P, "packed": None})
    assert laboratory.guilty()[0] == []
    laboratory = Laboratory(tmp_path / "2", packed, separate, X, P)
    assert laboratory.guilty()[0] == []


def test_a_fault_behind_packed_projections_is_found(tmp_path):
    def broken(m):
        x = m.input()
        whole = m.matmul(x, m.given("packed", np.concatenate([P["w0"], P["w1"], P["w2"]], 1), "parameter"))
        q, k, v = m.split(whole, 3)
        scores = m.scale(m.matmul(q, m.transpose(k, 1, 0)), 0.5)  # line: packed
        return m.matmul(m.softmax(scores), v)

    found = located(tmp_path, separate, broken)
    assert lines(found) == [line_of("packed")]
    assert found[0].what == "extra"
    assert found[0].confirmed


# -- one fault ---------------------------------------------------------------------------------------------------------------


def test_another_result_of_the_same_inputs(tmp_path):
    def broken(m):
        x = m.relu(layer(m, m.input(), 0), slope=0.01)  # line: slope
        x = m.layer_norm(x, m.parameter("gamma"), m.parameter("beta"))
        x = m.tanh(layer(m, x, 1))
        x = m.add(x, layer(m, x, 2))
        return m.matmul(x, m.parameter("head"))

    found = located(tmp_path, network, broken)
    assert lines(found) == [line_of("slope")]
    one = found[0]
    assert (one.what, one.confirmed, one.inputs_agree) == ("different", True, True)
    assert one.candidate.op == "relu"
    assert one.candidate.arguments == {"slope": 0.01}
    assert one.reference.arguments == {"slope": 0.0}
    assert one.candidate.code.startswith("x = m.relu(layer(m, m.input(), 0), slope=0.01)")
    assert one.reference.code == "x = m.relu(layer(m, x, 0))"
    assert one.error > 1e-4
    assert one.error_before < 1e-7
    assert one.error_after < 1e-7
    assert one.chain
    assert "matmul" in one.last_agreeing


def test_a_small_error_is_found_as_well(tmp_path):
    def broken(m):
        x = m.relu(layer(m, m.input(), 0))
        x = m.layer_norm(x, m.parameter("gamma"), m.parameter("beta"), eps=2e-5)  # line: epsilon
        x = m.tanh(layer(m, x, 1))
        x = m.add(x, layer(m, x, 2))
        return m.matmul(x, m.parameter("head"))

    found = located(tmp_path, network, broken)
    assert lines(found) == [line_of("epsilon")]
    assert found[0].error < 1e-4


def test_a_small_error_that_the_output_does_not_show(tmp_path):
    def saturated(m, eps):
        x = m.layer_norm(layer(m, m.input(), 0), m.parameter("gamma"), m.parameter("beta"), eps=eps)  # line: hidden
        x = m.tanh(m.scale(x, 1e4))
        return m.matmul(x, m.parameter("head"))

    found = located(tmp_path, lambda m: saturated(m, 1e-5), lambda m: saturated(m, 3e-5))
    assert lines(found) == [line_of("hidden")]
    assert any("do not show it" in note for note in found[0].notes)


def test_gelu_by_its_approximation(tmp_path):
    def program(tanh):
        def run(m):
            x = m.gelu(layer(m, m.input(), 0), tanh=tanh)  # line: gelu
            return layer(m, x, 1)

        return run

    found = located(tmp_path, program(tanh=False), program(tanh=True))
    assert lines(found) == [line_of("gelu")]
    assert found[0].candidate.arguments == {"approximate": True}


def test_a_missing_step_is_told_with_the_line_where_the_value_was_handed_on(tmp_path):
    def broken(m):
        x = m.input()
        x = layer(m, x, 0)  # line: missing
        x = m.layer_norm(x, m.parameter("gamma"), m.parameter("beta"))  # line: consumer
        x = m.tanh(layer(m, x, 1))
        x = m.add(x, layer(m, x, 2))
        return m.matmul(x, m.parameter("head"))

    found = located(tmp_path, network, broken)
    assert len(found) == 1
    assert found[0].what == "missing"
    assert found[0].reference.op == "relu"
    assert lines(found) == [line_of("missing")]
    assert "missing here" in found[0].notes[0]


def test_a_missing_step_on_a_line_of_its_own(tmp_path):
    def whole(m):
        x = layer(m, m.input(), 0)
        x = m.exp(m.scale(x, 0.1))
        x = m.tanh(x)
        return m.matmul(x, m.parameter("head"))

    def broken(m):
        x = layer(m, m.input(), 0)
        x = m.exp(m.scale(x, 0.1))
        return m.matmul(x, m.parameter("head"))  # line: head without

    found = located(tmp_path, whole, broken)
    assert len(found) == 1
    assert found[0].what == "missing"
    assert found[0].reference.op == "tanh"


def test_a_step_too_much(tmp_path):
    def broken(m):
        x = m.relu(layer(m, m.input(), 0))
        x = m.layer_norm(x, m.parameter("gamma"), m.parameter("beta"))
        x = m.tanh(layer(m, x, 1))
        x = m.scale(x, 1.25)  # line: extra
        x = m.add(x, layer(m, x, 2))
        return m.matmul(x, m.parameter("head"))

    found = located(tmp_path, network, broken)
    assert lines(found) == [line_of("extra")]
    assert found[0].what == "extra"


def test_a_wrong_wire(tmp_path):
    def broken(m):
        first = m.relu(layer(m, m.input(), 0))
        x = m.layer_norm(first, m.parameter("gamma"), m.parameter("beta"))
        x = m.tanh(layer(m, x, 1))
        x = m.add(first, layer(m, x, 2))  # line: wire
        return m.matmul(x, m.parameter("head"))

    found = located(tmp_path, network, broken)
    assert lines(found) == [line_of("wire")]
    assert found[0].what == "miswired"


def test_parameters_in_each_others_place(tmp_path):
    def broken(m):
        x = m.relu(layer(m, m.input(), 0))
        x = m.layer_norm(x, m.parameter("gamma"), m.parameter("beta"))
        x = m.tanh(layer(m, x, 2))  # line: exchanged
        x = m.add(x, layer(m, x, 1))  # line: exchanged too
        return m.matmul(x, m.parameter("head"))

    found = located(tmp_path, network, broken)
    assert all(d.confirmed for d in found)
    assert line_of("exchanged") in lines(found) + [line for d in found for line in d.candidate.lines]


def test_a_constant_that_the_reference_does_not_have(tmp_path):
    table = drawn(77, 6, 8)

    def program(values):
        def run(m):
            x = m.add(m.input(), m.constant(values))  # line: constant
            return m.tanh(layer(m, x, 0))

        return run

    found = located(tmp_path, program(table), program(table * 1.01))
    assert lines(found) == [line_of("constant")]
    assert found[0].what == "given"
    assert not found[0].inputs_agree


def test_a_region_that_is_computed_in_other_steps(tmp_path):
    def broken(m):
        x = m.relu(layer(m, m.input(), 0))
        mean = m.operation("mean", lambda a: a.mean(-1, keepdims=True), x)
        centred = m.operation("subtract", lambda a, b: a - b, x, mean)
        variance = m.operation("mean", lambda a: (a**2).mean(-1, keepdims=True), centred)
        shifted = m.shift(variance, 1e-3)  # line: region
        x = m.operation("divide", lambda a, v: a / np.sqrt(v), centred, shifted)
        x = m.add(m.multiply(x, m.parameter("gamma")), m.parameter("beta"))
        x = m.tanh(layer(m, x, 1))
        x = m.add(x, layer(m, x, 2))
        return m.matmul(x, m.parameter("head"))

    found = located(tmp_path, network, broken)
    assert len(found) == 1
    assert found[0].what == "region"
    assert lines(found) == [line_of("region")]


def test_another_axis_whose_values_are_permuted(tmp_path):
    def program(*axes):
        def run(m):
            x = m.reshape(layer(m, m.input(), 0), 6, 2, 4)
            x = m.reshape(m.transpose(x, *axes), 6, 8)  # line: axes
            return m.tanh(layer(m, x, 1))

        return run

    found = located(tmp_path, program(0, 1, 2), program(0, 2, 1))
    assert len(found) == 1
    assert found[0].confirmed


def test_a_softmax_over_the_other_axis(tmp_path):
    def program(axis):
        def run(m):
            x = m.softmax(layer(m, m.input(), 0), axis=axis)  # line: softmax
            return layer(m, x, 1)

        return run

    assert lines(located(tmp_path, program(-1), program(0))) == [line_of("softmax")]


# -- several faults ----------------------------------------------------------------------------------------------------------


def test_independent_faults_are_all_found_in_one_run(tmp_path):
    def broken(m):
        x = m.relu(layer(m, m.input(), 0), slope=0.1)  # line: first of three
        x = m.layer_norm(x, m.parameter("gamma"), m.parameter("beta"), eps=1e-3)  # line: second of three
        x = m.tanh(layer(m, x, 1))
        x = m.add(x, layer(m, x, 2))
        x = m.scale(x, 0.9)  # line: third of three
        return m.matmul(x, m.parameter("head"))

    found = located(tmp_path, network, broken)
    assert sorted(lines(found)) == [line_of(f"{which} of three") for which in ("first", "second", "third")]
    assert all(d.confirmed for d in found)


def test_faults_of_parallel_branches(tmp_path):
    def program(first, second):
        def run(m):
            x = m.input()
            one = m.relu(layer(m, x, 0), slope=first)  # line: branch one
            two = m.layer_norm(layer(m, x, 1), m.parameter("gamma"), m.parameter("beta"), eps=second)  # line: branch two
            return {"one": one, "two": two}

        return run

    found = located(tmp_path, program(0.0, 1e-5), program(0.2, 1e-2))
    assert sorted(lines(found)) == [line_of("branch one"), line_of("branch two")]


def test_a_fault_of_a_loop_is_one_fault_with_its_repeats(tmp_path):
    def program(slope):
        def run(m):
            x = m.input()
            for i in range(5):
                x = m.relu(layer(m, x, i), slope=slope)  # line: loop
            return x

        return run

    found = located(tmp_path, program(0.1), program(0.2))
    assert lines(found) == [line_of("loop")]
    assert found[0].repeats == 4
    assert found[0].error_after < 1e-7  # with all of them mended


# -- which line --------------------------------------------------------------------------------------------------------------


def activation(m, x, slope):
    return m.relu(x, slope=slope)  # line: helper


def test_a_helper_that_is_used_with_right_arguments_too_is_not_blamed(tmp_path):
    def program(slope):
        def run(m):
            x = activation(m, layer(m, m.input(), 0), 0.1)
            x = activation(m, layer(m, x, 1), slope)  # line: argument
            return layer(m, x, 2)

        return run

    assert lines(located(tmp_path, program(0.2), program(0.3))) == [line_of("argument")]


def test_a_helper_that_is_wrong_itself_is_blamed(tmp_path):
    def other(m, x):
        return m.relu(x, slope=0.5)  # line: wrong helper

    def program(act):
        def run(m):
            x = act(m, layer(m, m.input(), 0))
            return layer(m, act(m, layer(m, x, 1)), 2)

        return run

    found = located(tmp_path, program(lambda m, x: m.relu(x, slope=0.1)), program(other))
    assert lines(found) == [line_of("wrong helper")]


class Layers:
    """Layers of a framework: where they are constructed and where they run are two lines."""

    def __init__(self, eps):
        self.eps = eps

    def __call__(self, m):
        with m.module("norm", "LayerNorm"):
            m.built["norm"] = [f"model.py:{7 if self.eps > 1e-5 else 3}"]
            x = m.layer_norm(layer(m, m.input(), 0), m.parameter("gamma"), m.parameter("beta"), eps=self.eps)
        return layer(m, x, 1)


def test_a_layer_that_does_something_else_is_wrong_where_it_was_constructed(tmp_path):
    found = located(tmp_path, Layers(1e-5), Layers(1e-3))
    assert lines(found) == ["model.py:7"]
    assert found[0].reference.source == "model.py:3"
    assert found[0].candidate.name == "norm"
    assert found[0].candidate.op == "layer_norm (LayerNorm)"


# -- native precision --------------------------------------------------------------------------------------------------------


def test_a_fault_is_found_where_only_float32_runs(tmp_path):
    def broken(m):
        x = m.relu(layer(m, m.input(), 0), slope=0.1)  # line: coarse
        x = m.layer_norm(x, m.parameter("gamma"), m.parameter("beta"))
        x = m.tanh(layer(m, x, 1))
        x = m.add(x, layer(m, x, 2))
        return m.matmul(x, m.parameter("head"))

    assert lines(located(tmp_path, network, broken, runs=("native",))) == [line_of("coarse")]


@pytest.mark.parametrize("candidate", [unfused, with_moves, other_order, transposed])
def test_rounding_of_float32_is_no_fault(tmp_path, candidate):
    assert located(tmp_path, network, candidate, runs=("native",)) == []


# -- tables in another form, and faults that are none -----------------------------------------------------------------------------

TABLE = drawn(77, 6, 6)


def propagated(m):
    """The reference holds its table doubled, and halves what it makes of it."""
    person, book = m.input(), layer(m, m.input(), 0)
    table = m.given("edges", 2 * TABLE, "buffer")
    for _ in range(2):
        person, book = m.scale(m.matmul(table, book), 0.5), m.scale(m.matmul(m.transpose(table, 1, 0), person), 0.5)
    return m.matmul(m.add(person, book), m.parameter("head"))


def propagated_dense(m, given=TABLE, late=False):
    person, book = m.input(), layer(m, m.input(), 0)
    table = m.given("adjacency", given, "buffer")
    for step in range(2):
        before = person
        person = m.matmul(table, book)
        book = m.matmul(m.transpose(table, 1, 0), person if late and step else before)  # line: late
    return m.matmul(m.add(person, book), m.parameter("head"))


def test_a_table_in_another_form_is_no_fault_of_its_own(tmp_path):
    assert located(tmp_path / "right", propagated, propagated_dense) == []
    (found, *_) = located(tmp_path / "late", propagated, partial(propagated_dense, late=True))
    assert found.what != "given"
    assert found.confirmed
    (found, *_) = located(tmp_path / "table", propagated, partial(propagated_dense, given=1.1 * TABLE))
    assert found.what == "given"


def twice_scaled(m, first=0.7, second=0.6):
    x = m.scale(layer(m, m.input(), 0), first)  # line: first scale
    x = m.scale(m.tanh(layer(m, x, 1)), second)  # line: second scale
    return m.matmul(x, m.parameter("head"))


@pytest.mark.parametrize("second", [1.5, 0.61])
def test_a_fault_that_a_later_one_hides_stays(tmp_path, second):
    found = located(tmp_path, twice_scaled, partial(twice_scaled, first=0.75, second=second))
    assert lines(found) == [line_of("first scale"), line_of("second scale")]
