"""Layers that one side has as one and the other as several, told by sizes and order alone."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paralign.dtypes import Typed
from paralign.weights import plan, prove

sys.path.insert(0, str(Path(__file__).parent))
from test_weights_mapping import assert_round_trip, linear, moved, state

INPUT = np.random.default_rng(0).standard_normal((5, 8))


def conv(path, inputs, outputs, kind="Conv2D", width=3):
    return [(f"{path}.weight", kind, (outputs, inputs, width, width)), (f"{path}.bias", kind, (outputs,))]


def heads(framework, **sizes):
    return state(*linear("trunk", 8, 8, framework), *(entry for name, size in sizes.items() for entry in linear(name, 8, size, framework)))


def test_heads_of_unequal_widths_are_joined():
    reference, candidate = heads("torch", boxes=4, classes=6), heads("paddle", head=10)
    result = plan(reference, candidate, "torch", "paddle")
    assert result.complete
    assert {name: into for (name, _), (_, into) in moved(result).items() if name != "trunk.weight"} == {
        "trunk.bias": None,
        "boxes.weight": "transpose(1, 0) then rows(0, 4)",
        "boxes.bias": "rows(0, 4)",
        "classes.weight": "transpose(1, 0) then rows(4, 10)",
        "classes.bias": "rows(4, 10)",
    }
    own, given_ = assert_round_trip(result, reference)
    joined = np.concatenate([own["boxes.weight"].array, own["classes.weight"].array])
    assert np.array_equal(given_["head.weight"].array, joined.T)


def test_a_head_comes_apart():
    reference, candidate = heads("torch", head=10), heads("paddle", boxes=4, classes=6)
    result = plan(reference, candidate, "torch", "paddle")
    assert result.complete
    assert moved(result)["head.weight", "rows(4, 10) then transpose(1, 0)"] == ("classes.weight", None)
    assert_round_trip(result, reference)


@pytest.mark.parametrize(
    ("whole", "parts"),
    [
        (conv("head", 4, 10), [*conv("a", 4, 6), *conv("b", 4, 4)]),
        (conv("head", 4, 10, width=1), [*linear("a", 4, 6, "torch"), *linear("b", 4, 4, "torch")]),
        ([("all.weight", "Embedding", (18, 3))], [("a.weight", "Embedding", (11, 3)), ("b.weight", "Embedding", (7, 3))]),
        (
            [(f"n.{leaf}", "BatchNorm2d", (10,), {"role": role}) for leaf, role in (("weight", "parameter"), ("running_var", "buffer"))],
            [
                (f"{n}.{leaf}", "BatchNorm2d", (size,), {"role": role})
                for n, size in (("a", 6), ("b", 4))
                for leaf, role in (("weight", "parameter"), ("running_var", "buffer"))
            ],
        ),
    ],
)
def test_other_layers_are_packed_alike(whole, parts):
    for reference, candidate in ((state(*whole), state(*parts)), (state(*parts), state(*whole))):
        result = plan(reference, candidate, "torch", "torch")
        assert result.complete
        assert_round_trip(result, reference)


def test_the_order_of_execution_says_what_is_packed():
    """One of the parts is as wide as another layer, which is defined between them."""
    reference = state(*linear("x", 8, 3, "torch"), *linear("z", 8, 8, "torch"), *linear("y", 8, 8, "torch"))
    candidate = state(*linear("u", 8, 11, "torch"), *linear("w", 8, 8, "torch"))
    result = plan(reference, candidate, "torch", "torch", calls=(["", "z", "y", "x"], ["", "w", "u"]))
    assert {n: (to, into) for (n, _), (to, into) in moved(result).items() if n.endswith("bias")} == {
        "z.bias": ("w.bias", None),
        "y.bias": ("u.bias", "rows(0, 8)"),
        "x.bias": ("u.bias", "rows(8, 11)"),
    }


@pytest.mark.parametrize("prefix", ["level", "head"])
def test_heads_of_one_kind_on_all_levels_before_those_of_the_next(prefix):
    """Levels are told by their numbers, which parts keep."""
    reference = state(*(e for kind, size in (("cls", 6), ("box", 4)) for n in range(3) for e in conv(f"{kind}.{n}", 4, size)))
    candidate = state(*(e for n in range(3) for e in conv(f"{prefix}.{n}", 4, 10)))
    for one, other in ((reference, candidate), (candidate, reference)):
        result = plan(one, other, "torch", "paddle")
        assert result.complete
        assert_round_trip(result, one)
        assert all(m.reference.name.split(".")[1] == m.candidate.name.split(".")[1] for m in result.moves)


@pytest.mark.parametrize(
    ("parts", "whole"),
    [
        ([*linear("a", 8, 6, "torch"), *linear("b", 8, 3, "torch")], linear("ab", 8, 10, "torch")),  # another sum
        (
            [*linear("a", 8, 6, "torch"), *linear("b", 8, 4, "torch")],
            [*linear("c", 8, 5, "torch"), *linear("d", 8, 5, "torch")],
        ),  # cut elsewhere
        ([*linear("a", 8, 6, "torch"), *linear("b", 7, 4, "torch")], linear("ab", 8, 10, "torch")),  # other inputs
        ([*linear("a", 8, 6, "torch"), ("b.weight", "Linear", (4, 8))], linear("ab", 8, 10, "torch")),  # a bias is missing
        ([*conv("a", 8, 6), *conv("b", 8, 4, width=1)], conv("ab", 8, 10)),
        (conv("a", 10, 8, "ConvTranspose2d") + conv("b", 10, 8, "ConvTranspose2d"), conv("ab", 20, 8, "ConvTranspose2d")),
        ([("a.weight", "LayerNorm", (6,)), ("b.weight", "LayerNorm", (4,))], [("ab.weight", "LayerNorm", (10,))]),  # normalises over all
    ],
)
def test_what_does_not_add_up_stays_whole_and_is_told(parts, whole):
    for one, other in ((parts, whole), (whole, parts)):
        result = plan(state(*one), state(*other), "torch", "torch")
        assert not result.complete
        assert all(m.into is None and not (m.transform and "rows" in m.transform) for m in result.moves)


def test_layers_with_a_twin_of_their_size_are_no_packs():
    entries = [*linear("a", 8, 6, "torch"), *linear("b", 8, 4, "torch"), *linear("c", 8, 10, "torch")]
    others = [*linear("x", 8, 10, "torch"), *linear("y", 8, 6, "torch"), *linear("z", 8, 4, "torch")]
    result = plan(state(*entries), state(*others), "torch", "torch")
    assert result.complete
    assert all(m.whole for m in result.moves)


SIZES = st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=4), min_size=1, max_size=6)


@given(SIZES, st.booleans())
@settings(max_examples=60, deadline=None)
def test_whatever_is_joined_in_order_is_found(groups, turned):
    parts = state(*(e for n, size in enumerate(s for g in groups for s in g) for e in linear(f"p{'abcdefgh'[n % 8]}{n}", 8, size, "torch")))
    whole = state(*(e for n, group in enumerate(groups) for e in linear(f"w{'stuvwx'[n]}", 8, sum(group), "torch")))
    reference, candidate = (whole, parts) if turned else (parts, whole)
    result = plan(reference, candidate, "torch", "torch")
    assert result.complete
    assert_round_trip(result, reference)


def proof_of(port, *, sizes, widths=10):
    """A port with one layer, told from a reference with several whose outputs stand one after the other."""
    reference = state(*((f"{'abc'[n]}.weight", "Linear", (size, 8)) for n, size in enumerate(sizes)))
    candidate = state(("m.weight", "Linear", (8, widths)))
    generator = np.random.default_rng(1)
    own = {r.name: Typed(generator.standard_normal(r.shape), "float64") for r in reference}
    truth = np.concatenate([INPUT @ own[r.name].array.T for r in reference], 1)

    def run(trial):
        there = {t.name: trial.assemble(t.name, own.get).array for t in trial.targets}
        return float(np.linalg.norm(port(INPUT @ there["m.weight"]) - truth) / np.linalg.norm(truth) / 1e-9)

    return prove(plan(reference, candidate, "torch", "paddle"), run), own


def test_parts_of_unequal_sizes_may_lie_in_another_order():
    proof, own = proof_of(lambda y: np.concatenate([y[:, 7:], y[:, 1:7], y[:, :1]], 1), sizes=(3, 6, 1))
    assert proof.proven
    assert not proof.ambiguous
    assert proof.changed == ["the order of the parts of one layer: rows of (3, 6, 1) in the order (2, 1, 0)"]
    assert [m.into for m in proof.plan.moves] == [f"transpose(1, 0) then rows({span})" for span in ("7, 10", "1, 7", "0, 1")]
    made = proof.plan.assemble("m.weight", own.get).array
    assert np.array_equal(made.T, np.concatenate([own[f"{n}.weight"].array for n in "cba"]))


def test_parts_of_unequal_sizes_may_lie_together_by_anchor():
    """Four numbers of a box and one of a class for each of two anchors."""

    def port(y):
        apart = y.reshape(5, 2, 5)
        return np.concatenate([apart[:, :, :4].reshape(5, 8), apart[:, :, 4]], 1)

    proof, _ = proof_of(port, sizes=(8, 2))
    assert proof.proven
    assert [m.into for m in proof.plan.moves] == ["transpose(1, 0) then heads(2, 5, 0, 4)", "transpose(1, 0) then heads(2, 5, 4)"]


def test_a_port_that_takes_other_outputs_is_never_proven():
    proof, _ = proof_of(lambda y: np.concatenate([y[:, :6], y[:, 3:7]], 1), sizes=(6, 4))
    assert not proof.right


def product(*parts, biased=(True, False)):
    """A product of two inputs, as one layer or as two."""
    layers = [linear(name, inputs, 6, "torch")[: 1 + with_bias] for (name, inputs), with_bias in zip(parts, biased, strict=False)]
    return state(*(entry for layer in layers for entry in layer))


@pytest.mark.parametrize("biased", [(True, False), (False, True), (False, False)])
@pytest.mark.parametrize("inputs", [(8, 5), (8, 8)])
def test_products_whose_inputs_stand_beside_each_other(inputs, biased):
    apart = product(("x", inputs[0]), ("h", inputs[1]), biased=biased)
    joined = product(("both", sum(inputs)), biased=(any(biased),))
    for one, other in ((apart, joined), (joined, apart)):
        result = plan(one, other, "torch", "torch")
        assert result.complete
        assert_round_trip(result, one)
        (state_move,) = (m for m in result.moves if "h.weight" in (m.reference.name, m.candidate.name))
        assert (state_move.into if one is apart else state_move.transform) == f"columns({inputs[0]}, {sum(inputs)})"


@pytest.mark.parametrize("biased", [(True, True), (False, False)])
def test_biases_that_would_have_to_be_added_are_told(biased):
    apart, joined = product(("x", 8), ("h", 5), biased=biased), product(("both", 13))
    for one, other in ((apart, joined), (joined, apart)):
        result = plan(one, other, "torch", "torch")
        assert not result.complete
        assert not [m for m in result.moves if not m.whole]


@pytest.mark.parametrize("sizes", [(3, 5), (4, 4)])
@pytest.mark.parametrize("first", ["x", "h"])
def test_joined_inputs_may_come_in_either_order(sizes, first):
    reference = state(("x.weight", "Linear", (6, sizes[0])), ("h.weight", "Linear", (6, sizes[1])))
    candidate = state(("both.weight", "Linear", (8, 6)))
    generator = np.random.default_rng(1)
    own = {r.name: Typed(generator.standard_normal(r.shape), "float64") for r in reference}
    given_x, given_h = (generator.standard_normal((5, size)) for size in sizes)
    truth = given_x @ own["x.weight"].array.T + given_h @ own["h.weight"].array.T

    def run(trial):
        matrix = trial.assemble("both.weight", own.get).array
        joined = np.concatenate([given_x, given_h] if first == "x" else [given_h, given_x], 1)
        return float(np.linalg.norm(joined @ matrix - truth) / 1e-9)

    proof = prove(plan(reference, candidate, "torch", "paddle"), run)
    assert proof.proven
    assert not proof.ambiguous
    assert bool(proof.changed) == (first == "h")


def test_a_head_comes_apart_beside_fused_projections():
    block = [("{}.attn.in_proj_weight", "MultiheadAttention", (24, 8)), ("{}.attn.in_proj_bias", "MultiheadAttention", (24,))]
    fused = [(name.format(f"blocks.{n}"), *rest) for n in range(2) for name, *rest in block]
    outs = [entry for n in range(2) for entry in linear(f"blocks.{n}.attn.out_proj", 8, 8, "torch")]
    apart = [
        entry for n in range(2) for role in ("q_proj", "k_proj", "v_proj", "out_proj") for entry in linear(f"b.{n}.{role}", 8, 8, "paddle")
    ]
    reference = state(*fused, *outs, *linear("out", 8, 2, "torch"))
    candidate = state(*linear("logit", 8, 1, "paddle"), *linear("count", 8, 1, "paddle"), *apart)
    result = plan(reference, candidate, "torch", "paddle")
    assert result.complete
    assert moved(result)["out.weight", "rows(0, 1) then transpose(1, 0)"] == ("logit.weight", None)
    assert moved(result)["out.bias", "rows(1, 2)"] == ("count.bias", None)
    assert_round_trip(result, reference)


def test_a_part_of_a_fused_projection_is_not_taken_apart_again():
    fused = [("attn.in_proj_weight", "MultiheadAttention", (24, 8)), ("attn.in_proj_bias", "MultiheadAttention", (24,))]
    halves = [entry for role in ("q_proj", "k_proj", "v_proj") for entry in linear(role, 8, 8, "paddle")]
    candidate = state(*halves, *linear("a", 8, 5, "paddle"), *linear("b", 8, 3, "paddle"))
    result = plan(state(*fused), candidate, "torch", "paddle")
    assert not result.complete
    assert {m.candidate.name for m in result.moves} == {entry[0] for entry in halves}
