"""Formulas written in other steps: of a region, what leads to a value that both sides share is left."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from minilanguage import Laboratory, drawn, line_in
from minilanguage import named as lines

from paralign.locate.suspects import narrowing
from paralign.locate.suspects.propose import Reason, Trial, region

X = {"x": drawn(1, 6, 12), "style": drawn(2, 6, 12)}
P = {"w": drawn(3, 20, 12), "v": drawn(5, 20, 12), "b": drawn(4, 20)}

line_of = partial(line_in, __file__)
GATED = line_of("made").rpartition(":")[2]


def kernels_of_each_sample(m):
    """Styles scale the kernels, which are divided by their norms; a gate shifts as the norms do, in a step of its own."""
    w, s = m.parameter("w"), m.input("style")
    gate = m.tanh(m.shift(m.operation("matmul", lambda a, b: a @ b.T, s, m.parameter("v")), 0.25))
    kernel = m.operation("multiply", lambda a, b: a[None] * b[:, None], w, s)
    power = m.operation("sum", lambda k: (k * k).sum(-1), kernel, axis=-1)
    kernel = m.operation(
        "multiply", lambda k, p: k * p[..., None], kernel, m.operation("rsqrt", lambda p: np.abs(p) ** -0.5, m.shift(power, 1e-4))
    )
    made = m.operation("matmul", lambda k, x: np.einsum("noi,ni->no", k, x), kernel, m.input())  # line: made
    return m.add(m.multiply(made, gate), m.parameter("b"))


def one_kernel(squared=True, factor=1.0, root=-0.5):
    """Styles scale what goes in, norms what comes out."""

    def run(m):
        w, s = m.parameter("w"), m.input("style")
        made = m.operation("matmul", lambda x, k: x @ k.T, m.multiply(m.input(), s), w)
        gate = m.tanh(m.operation("linear", lambda a, b: a @ b.T + 0.25, s, m.parameter("v")))
        squares = m.multiply(w, w)  # line: squares
        power = m.operation("einsum", lambda a, b: np.abs(a * a if squared else a) @ b.T, s, squares)  # line: power
        root_of = m.operation("rsqrt", lambda p: np.abs(p) ** root, m.shift(power, 1e-4))
        made = m.scale(m.multiply(made, root_of), factor)  # line: product
        return m.add(m.multiply(made, gate), m.parameter("b"))

    return run


def located(tmp_path, candidate):
    return Laboratory(tmp_path, kernels_of_each_sample, candidate, X, P).divergences()


def the(graph, kind, line=""):
    """The first result of an operation of some kind, at a line."""
    return next(o.outputs[0] for o in graph.operations if o.kind == kind and o.source.endswith(line))


def test_a_value_inside_a_region_that_mends_its_end_leaves_what_leads_to_it(tmp_path):
    laboratory = Laboratory(tmp_path, kernels_of_each_sample, one_kernel(squared=False), X, P)
    judgement = laboratory.judgement()
    begin = the(judgement.candidate, "multiply", line_of("squares").rpartition(":")[2])
    end, due = the(judgement.candidate, "multiply", line_of("product").rpartition(":")[2]), the(judgement.reference, "matmul", GATED)
    whole = Trial(begin.maker, end, due, Reason.RESULT, due.maker, region(judgement, begin.maker, end))
    inner = [each for each in narrowing.proposals(judgement, whole) if each.due.maker.kind == "sum"]
    assert [each.value.maker.source for each in inner] == [line_of("power")]
    assert {o.source for o in whole.region} > {line_of("squares"), line_of("power"), line_of("product")}
    assert {o.source for o in narrowing.left_of(whole, inner[0])} == {line_of("squares"), line_of("power")}


def test_a_region_whose_end_the_model_gives_proposes_only_what_fits(tmp_path):
    laboratory = Laboratory(tmp_path, kernels_of_each_sample, one_kernel(squared=False), X, P)
    judgement = laboratory.judgement()
    begin = the(judgement.candidate, "multiply", line_of("squares").rpartition(":")[2])
    alone = Trial(begin.maker, begin, the(judgement.reference, "sum"), Reason.RESULT, None, [begin.maker])
    assert narrowing.proposals(judgement, alone) == []


def test_the_other_way_to_write_it_is_right(tmp_path):
    assert located(tmp_path, one_kernel()) == []


def test_a_factor_forgotten_in_a_norm_is_named_there(tmp_path):
    found = located(tmp_path, one_kernel(squared=False))
    assert lines(found) == [line_of("power")]
    assert found[0].confirmed


@pytest.mark.parametrize("factor", [0.5, 1.01])
def test_what_lies_behind_the_shared_value_is_not_narrowed(tmp_path, factor):
    found = located(tmp_path, one_kernel(factor=factor))
    assert lines(found) != [line_of("power")]
    assert found[0].confirmed
