"""What the engine makes of models whose layers are packed, renamed, declared in another order or laid out in ways of their own."""

import dataclasses
import random

import numpy as np
import pytest

from paralign.dtypes import Typed
from paralign.errors import UsageError
from paralign.model import Record
from paralign.weights import Drop, Option, Rename, Route, Rules, plan, rules_from_toml, to_toml
from paralign.weights.alternatives import _uneven


def state(*entries):
    """Records from (name, kind, shape[, attrs])."""
    records = []
    for number, (name, kind, shape, *more) in enumerate(entries):
        owner, _, leaf = name.rpartition(".")
        attrs = {"owner": owner, "leaf": leaf, "kind": kind, "trainable": True, "shared": None, "persistent": True}
        attrs.update(*more)
        records.append(Record(number, name, "weights", attrs.pop("role", "parameter"), attrs.pop("dtype", "float32"), shape, attrs=attrs))
    return records


def linear(path, inputs, outputs, framework, kind="Linear"):
    shape = (outputs, inputs) if framework == "torch" else (inputs, outputs)
    return [(f"{path}.weight", kind, shape), (f"{path}.bias", kind, (outputs,))]


def moved(result):
    return {(m.reference.name, m.transform): (m.candidate.name, m.into) for m in result.moves}


def values(records, seed=0):
    generator = np.random.default_rng(seed)
    return {r.name: Typed(generator.standard_normal(r.shape).astype("float32"), "float32") for r in records}


def assert_round_trip(result, reference):
    """There and back, bit by bit, through every target and source of a complete plan."""
    own = values(reference)
    given = {t.name: result.assemble(t.name, own.get) for t in result.targets}
    for target in result.targets:
        assert given[target.name].array.shape == tuple(target.shape)
    for record in result.sources:
        assert result.restore(record.name, given.get).array.tobytes() == own[record.name].array.tobytes()
    return own, given


TORCH_MHA = state(
    ("attn.in_proj_weight", "MultiheadAttention", (24, 8)),
    ("attn.in_proj_bias", "MultiheadAttention", (24,)),
    ("attn.out_proj.weight", "NonDynamicallyQuantizableLinear", (8, 8)),
    ("attn.out_proj.bias", "NonDynamicallyQuantizableLinear", (8,)),
)
PADDLE_MHA = state(
    *(entry for name in "qkv" for entry in linear(f"attn.{name}_proj", 8, 8, "paddle")), *linear("attn.out_proj", 8, 8, "paddle")
)


def test_packed_attention_comes_apart():
    result = plan(TORCH_MHA, PADDLE_MHA, "torch", "paddle")
    assert moved(result) == {
        ("attn.in_proj_weight", "rows(0, 8) then transpose(1, 0)"): ("attn.q_proj.weight", None),
        ("attn.in_proj_bias", "rows(0, 8)"): ("attn.q_proj.bias", None),
        ("attn.in_proj_weight", "rows(8, 16) then transpose(1, 0)"): ("attn.k_proj.weight", None),
        ("attn.in_proj_bias", "rows(8, 16)"): ("attn.k_proj.bias", None),
        ("attn.in_proj_weight", "rows(16, 24) then transpose(1, 0)"): ("attn.v_proj.weight", None),
        ("attn.in_proj_bias", "rows(16, 24)"): ("attn.v_proj.bias", None),
        ("attn.out_proj.weight", "transpose(1, 0)"): ("attn.out_proj.weight", None),
        ("attn.out_proj.bias", None): ("attn.out_proj.bias", None),
    }
    assert result.complete
    own, given = assert_round_trip(result, TORCH_MHA)
    assert np.array_equal(given["attn.k_proj.weight"].array, own["attn.in_proj_weight"].array[8:16].T)


def test_separate_attention_is_packed():
    result = plan(PADDLE_MHA, TORCH_MHA, "paddle", "torch")
    assert result.complete
    assert moved(result)["attn.v_proj.weight", "transpose(1, 0)"] == ("attn.in_proj_weight", "rows(16, 24)")
    own, given = assert_round_trip(result, PADDLE_MHA)
    packed = np.concatenate([own[f"attn.{n}_proj.weight"].array.T for n in "qkv"])
    assert np.array_equal(given["attn.in_proj_weight"].array, packed)
    assert [t.name for t in result.targets].count("attn.in_proj_weight") == 1


def test_packed_on_both_sides_stays_packed():
    result = plan(TORCH_MHA, TORCH_MHA, "torch", "torch")
    assert [(m.transform, m.into, m.how) for m in result.moves] == [(None, None, "name")] * 4


def test_projections_of_their_own_widths():
    reference = state(
        *((f"m.{n}_proj_weight", "MultiheadAttention", (8, w)) for n, w in zip("qkv", (8, 6, 4), strict=True)),
        ("m.in_proj_bias", "MultiheadAttention", (24,)),
    )
    candidate = state(*(e for n, w in zip("qkv", (8, 6, 4), strict=True) for e in linear(f"m.{n}_proj", w, 8, "paddle")))
    result = plan(reference, candidate, "torch", "paddle")
    assert result.complete
    assert_round_trip(result, reference)


def gpt2(*layers):
    return state(
        *(
            e
            for n in layers
            for e in (
                (f"h.{n}.attn.c_attn.weight", "", (8, 24)),
                (f"h.{n}.attn.c_attn.bias", "", (24,)),
                (f"h.{n}.attn.c_proj.weight", "", (8, 8)),
                (f"h.{n}.attn.c_proj.bias", "", (8,)),
                (f"h.{n}.mlp.c_fc.weight", "", (8, 16)),
                (f"h.{n}.mlp.c_fc.bias", "", (16,)),
                (f"h.{n}.mlp.c_proj.weight", "", (16, 8)),
                (f"h.{n}.mlp.c_proj.bias", "", (8,)),
                (f"h.{n}.attn.bias", "", (1, 1, 4, 4), {"role": "buffer", "dtype": "bool"}),
            )
        )
    )


def decoder(framework, *layers):
    return state(
        *(
            e
            for n in layers
            for name, i, o in (
                ("self_attn.k_proj", 8, 8),
                ("self_attn.v_proj", 8, 8),
                ("self_attn.q_proj", 8, 8),
                ("self_attn.out_proj", 8, 8),
                ("linear1", 8, 16),
                ("linear2", 16, 8),
            )
            for e in linear(f"dec.layers.{n}.{name}", i, o, framework)
        )
    )


@pytest.mark.parametrize("framework", ["paddle", "torch"])
def test_layers_of_the_users_own_are_laid_out_as_their_biases_say(framework):
    """HF's Conv1D holds inputs by outputs; the square c_proj follows the others."""
    reference = gpt2(0, 1)
    result = plan(reference, decoder(framework, 0, 1), "torch", framework)
    assert result.complete
    found = moved(result)
    turned = " then transpose(1, 0)" if framework == "paddle" else ""
    assert found["h.1.attn.c_attn.weight", f"transpose(1, 0) then rows(8, 16){turned}"] == ("dec.layers.1.self_attn.k_proj.weight", None)
    assert found["h.0.attn.c_proj.weight", None if turned else "transpose(1, 0)"] == ("dec.layers.0.self_attn.out_proj.weight", None)
    assert [m.reference.name for m in result.dropped] == ["h.0.attn.bias", "h.1.attn.bias"]
    own, given = assert_round_trip(result, reference)
    values_of_v = own["h.0.attn.c_attn.weight"].array[:, 16:]
    assert np.array_equal(given["dec.layers.0.self_attn.v_proj.weight"].array, values_of_v if turned else values_of_v.T)


def test_queries_may_be_more_than_keys():
    reference = state(("a.qkv_proj.weight", "Linear", (16, 8)))
    candidate = state(*((f"a.{n}_proj.weight", "Linear", (8, rows)) for n, rows in zip("qkv", (8, 4, 4), strict=True)))
    result = plan(reference, candidate, "torch", "paddle")
    assert [m.transform for m in result.moves] == [f"rows({a}, {b}) then transpose(1, 0)" for a, b in ((0, 8), (8, 12), (12, 16))]
    options = [o for c in result.alternatives for o in c.options]
    interleaved = next(o for o in options if o.note.startswith("2 heads"))
    assert [m.transform for m in result.choose(interleaved).moves] == [
        f"heads(2, 4, {slots}) then transpose(1, 0)" for slots in ("0, 2", "2", "3")
    ]
    assert_round_trip(result.choose(interleaved), reference)


def test_fused_parts_need_all_of_their_twins():
    reference = state(("a.qkv.weight", "Linear", (12, 4)))
    result = plan(reference, state(*((f"a.{n}.weight", "Linear", (4, 4)) for n in "qk")), "torch", "paddle")
    assert not result.complete
    assert {m.reference.name for m in result.missing} == {"a.qkv.weight"}


def test_declared_in_another_order():
    """CLIP declares k, v, q; shapes fit in any order, and only the words tell."""
    reference = state(
        *(
            e
            for n in range(3)
            for p in ("k_proj", "v_proj", "q_proj", "out_proj")
            for e in linear(f"enc.layers.{n}.attn.{p}", 8, 8, "torch")
        )
    )
    candidate = state(
        *(e for n in range(3) for p in ("query", "key", "value", "dense") for e in linear(f"tr.{n}.self.{p}", 8, 8, "paddle"))
    )
    result = plan(reference, candidate, "torch", "paddle")
    assert {m.reference.name: m.candidate.name for m in result.moves if m.reference.name.startswith("enc.layers.2.") and m.transform} == {
        "enc.layers.2.attn.k_proj.weight": "tr.2.self.key.weight",
        "enc.layers.2.attn.v_proj.weight": "tr.2.self.value.weight",
        "enc.layers.2.attn.q_proj.weight": "tr.2.self.query.weight",
        "enc.layers.2.attn.out_proj.weight": "tr.2.self.dense.weight",
    }
    assert {(r.reference, r.candidate, r.count) for r in result.rules.renames} == {
        (f"enc.layers.{{a}}.attn.{one}", f"tr.{{a}}.self.{other}", 3)
        for one, other in (("k_proj", "key"), ("v_proj", "value"), ("q_proj", "query"), ("out_proj", "dense"))
    }
    assert {m.how for m in result.moves} == {"rule"}


def test_the_order_of_execution_decides_where_names_do_not():
    reference = state(*((f"{n}.weight", "Linear", (4, 4)) for n in ("alpha", "beta", "gamma")))
    candidate = state(*((f"{n}.weight", "Linear", (4, 4)) for n in ("one", "two", "three")))
    calls = ["alpha", "beta", "gamma"], ["three", "one", "two", ""]
    result = plan(reference, candidate, "torch", "paddle", calls=calls)
    assert {m.reference.name: m.candidate.name for m in result.moves} == {
        "alpha.weight": "three.weight",
        "beta.weight": "one.weight",
        "gamma.weight": "two.weight",
    }
    assert {m.how for m in result.moves} == {"calls"}
    assert result.ambiguous
    assert any(o.note == "in order of definition" for c in result.alternatives for o in c.options)


def test_a_layer_too_many_does_not_spoil_the_rest():
    reference = state(*(e for n in range(4) for e in linear(f"blocks.{n}.mlp.fc1", 4, 4, "torch")))
    candidate = state(
        *(e for n in range(4) for e in linear(f"layer.{n}.mlp.linear1", 4, 4, "paddle")), *linear("extra.head", 4, 4, "paddle")
    )
    result = plan(reference, candidate, "torch", "paddle")
    assert not result.missing
    assert {m.candidate.name for m in result.extra} == {"extra.head.weight", "extra.head.bias"}
    assert {m.reference.name[7]: m.candidate.name[6] for m in result.moves} == {str(n): str(n) for n in range(4)}


def test_a_table_whose_rows_are_reduced_by_hand():
    reference = state(("genre.weight", "EmbeddingBag", (7, 8)), ("tag.weight", "EmbeddingBag", (9, 1)))
    candidate = state(("genres.rows.weight", "Embedding", (7, 8)), ("tags.rows.weight", "Embedding", (9, 1)))
    result = plan(reference, candidate, "torch", "paddle")
    assert {m.reference.name: m.candidate.name for m in result.moves} == {
        "genre.weight": "genres.rows.weight",
        "tag.weight": "tags.rows.weight",
    }
    assert_round_trip(result, reference)


@pytest.mark.parametrize(
    ("entries", "others", "transform"),
    [
        ([("b.bias", "Bilinear", (4,))], [("b.bias", "Bilinear", (1, 4))], "reshape(1, 4)"),
        ([("head.weight", "Linear", (4, 3))], [("head.weight", "Conv2D", (4, 3, 1, 1))], "reshape(4, 3, 1, 1)"),
        ([("head.weight", "Conv2d", (4, 3, 1, 1))], [("fc.weight", "Linear", (3, 4))], "reshape(4, 3) then transpose(1, 0)"),
        ([("scale", "", ())], [("scale", "", (1,))], "reshape(1)"),
        ([("cls", "", (1, 1, 8))], [("cls", "", (8,))], "reshape(8)"),
    ],
)
def test_shapes_that_differ_by_ones(entries, others, transform):
    reference, candidate = state(*entries), state(*others)
    result = plan(reference, candidate, "torch", "paddle")
    assert [m.transform for m in result.moves] == [transform]
    assert_round_trip(result, reference)


@pytest.mark.parametrize(
    ("shape", "other", "transform"),
    [
        ((2, 8), (16,), "reshape(16)"),
        ((16,), (2, 8), "reshape(2, 8)"),
        ((4, 2, 8), (4, 16), "reshape(4, 16)"),
        ((6, 4), (1, 24), "reshape(1, 24)"),
    ],
)
def test_parameters_of_the_users_own_may_be_kept_flat(shape, other, transform):
    reference = state(("blocks.0.query", "", shape), ("blocks.1.query", "", shape))
    candidate = state(("layers.0.vector", "", other), ("layers.1.vector", "", other))
    result = plan(reference, candidate, "torch", "paddle")
    assert moved(result) == {(f"blocks.{n}.query", transform): (f"layers.{n}.vector", None) for n in (0, 1)}
    assert_round_trip(result, reference)


@pytest.mark.parametrize(("shape", "other"), [((2, 8), (4, 4)), ((2, 8), (15,)), ((4, 6), (8, 3)), ((2, 3, 4), (4, 6))])
def test_parameters_of_as_many_elements_are_not_the_same_if_no_axes_are_joined(shape, other):
    assert not plan(state(("query", "", shape)), state(("query", "", other)), "torch", "paddle").moves


def test_a_layers_weight_is_not_taken_for_a_flat_parameter():
    assert not plan(state(("mix.weight", "Linear", (2, 8))), state(("mix", "", (16,))), "torch", "paddle").moves


def lstm(layers, both, proj):
    entries = []
    for n in range(layers):
        for back in ("", "_reverse")[: 1 + both]:
            entries += [
                (f"rnn.{leaf}_l{n}{back}", "LSTM", shape)
                for leaf, shape in (("weight_ih", (16, 6)), ("weight_hh", (16, proj or 4)), ("bias_ih", (16,)), ("bias_hh", (16,)))
            ]
            entries += [(f"rnn.weight_hr_l{n}{back}", "LSTM", (proj, 4))] if proj else []
    return entries


def paddle_lstm(layers, both, proj):
    """As Paddle lists them: flat names in the order of the weights, which the projections put out of step, and the cells beside them."""
    flat = [e[0] for e in lstm(layers, both, 0)]
    cells = [
        (f"rnn.{n}.cell{('_bw' if b else '_fw') if both else ''}.{leaf}", shape)
        for n in range(layers)
        for b in range(1 + both)
        for leaf, shape in (
            ("weight_ih", (16, 6)),
            ("weight_hh", (16, proj or 4)),
            ("bias_ih", (16,)),
            ("bias_hh", (16,)),
            *([("weight_ho", (4, proj))] if proj else []),
        )
    ]
    entries = [(name, "LSTM", shape) for name, (_, shape) in zip(flat, cells, strict=False)]
    return entries + [(name, "LSTMCell", shape, {"shared": flat[n] if n < len(flat) else None}) for n, (name, shape) in enumerate(cells)]


@pytest.mark.parametrize("proj", [0, 3, 4])
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
def test_recurrent_layers_go_by_their_cells(layers, both, proj):
    reference, candidate = state(*lstm(layers, both, proj)), state(*paddle_lstm(layers, both, proj))
    result = plan(reference, candidate, "torch", "paddle")
    assert result.complete
    cells = {r.attrs["shared"] or r.name: r.name for r in candidate if r.attrs["kind"] == "LSTMCell"}
    for move in result.moves:
        leaf, _, place = move.reference.name[4:].rpartition("_l")
        way = ("cell_bw" if "reverse" in place else "cell_fw") if both else "cell"
        assert cells[move.candidate.name] == f"rnn.{place[0]}.{way}.{leaf.replace('weight_hr', 'weight_ho')}"
        assert move.transform == ("transpose(1, 0)" if leaf == "weight_hr" else None)
    back = plan(candidate, reference, "paddle", "torch")
    assert back.complete
    assert len(back.moves) == len(reference)


def test_a_recurrent_layer_against_cells():
    candidate = state(
        *(
            (f"net.cell.{leaf}", "LSTMCell", shape)
            for leaf, shape in (("weight_ih", (16, 6)), ("weight_hh", (16, 4)), ("bias_ih", (16,)), ("bias_hh", (16,)))
        )
    )
    result = plan(state(*lstm(1, False, 0)), candidate, "torch", "paddle")
    assert result.complete
    assert {m.reference.name[4:-3]: m.candidate.name[9:] for m in result.moves} == {
        n: n for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    }


@pytest.mark.parametrize("by_hand", ["reference", "candidate"])
@pytest.mark.parametrize(
    "beside", [[], [("gru.weight_ih_l0", "GRU", (12, 3)), ("gru.weight_hh_l0", "GRU", (12, 4))]], ids=["alone", "beside a GRU"]
)
def test_a_cell_of_the_library_against_one_written_by_hand(by_hand, beside):
    """Two products stand for the cell's matrices; shapes tell which, and each bias goes with its matrix."""
    turned = by_hand == "candidate"  # Paddle's Linear lies the other way
    layers = (("input", 6), ("hidden", 4))
    products = [(f"cell.{n}.weight", "Linear", (width, 16) if turned else (16, width)) for n, width in layers]
    products += [(f"cell.{n}.bias", "Linear", (16,)) for n, _ in layers]
    matrices = (("weight_ih", (16, 6)), ("weight_hh", (16, 4)), ("bias_ih", (16,)), ("bias_hh", (16,)))
    cell = [(f"cell.cell.{leaf}", "LSTMCell", shape) for leaf, shape in matrices]
    reference, candidate = (cell, products) if turned else (products, cell)
    reference, candidate = reference + beside, candidate + beside
    result = plan(state(*reference), state(*candidate), "torch", "paddle")
    assert result.complete
    roles = {"weight_ih": "input.weight", "weight_hh": "hidden.weight", "bias_ih": "input.bias", "bias_hh": "hidden.bias"}
    found = {(m.reference.name, m.candidate.name) for m in result.moves if not m.reference.name.startswith("gru")}
    pairs = {(f"cell.cell.{leaf}", f"cell.{name}") for leaf, name in roles.items()}
    assert found == (pairs if turned else {(name, leaf) for leaf, name in pairs})
    assert_round_trip(result, state(*reference))


def test_cells_on_both_sides_stay_cells():
    shapes = (("weight_ih", (16, 6)), ("weight_hh", (16, 4)), ("bias_ih", (16,)), ("bias_hh", (16,)))
    cell = [(f"one.{leaf}", "LSTMCell", shape) for leaf, shape in shapes]
    other = [(f"two.{leaf}", "LSTMCell", shape) for leaf, shape in shapes]
    result = plan(state(*cell), state(*other, ("ih.weight", "Linear", (6, 16))), "torch", "paddle")
    assert {m.candidate.name for m in result.moves} == {f"two.{leaf}" for leaf, _ in shapes}


def test_a_plan_can_be_saved_edited_and_used_again():
    reference, candidate = gpt2(0, 1), decoder("paddle", 0, 1)
    first = plan(reference, candidate, "torch", "paddle")
    again = plan(reference, candidate, "torch", "paddle", rules=rules_from_toml(to_toml(first.rules)))
    assert moved(again) == moved(first)
    assert {m.how for m in again.moves} == {"user"}
    swapped = to_toml(first.rules).replace("linear1", "linear9")
    result = plan(reference, candidate, "torch", "paddle", rules=rules_from_toml(swapped))
    assert moved(result) == moved(first)  # a rename that leads nowhere leaves the tensor to the engine


def test_rules_go_before_names():
    records = state(("a.weight", "Linear", (4, 4)), ("b.weight", "Linear", (4, 4)), ("c.weight", "Linear", (4, 4)))
    rules = Rules((Rename("a", "b"), Rename("b.weight", "a.weight")), (Route("c.weight", "c.weight", None, None),))
    result = plan(records, records, "torch", "paddle", rules=rules)
    assert {(m.reference.name, m.candidate.name, m.transform, m.how) for m in result.moves} == {
        ("a.weight", "b.weight", "transpose(1, 0)", "user"),
        ("b.weight", "a.weight", "transpose(1, 0)", "user"),
        ("c.weight", "c.weight", None, "user"),
    }
    dropped = plan(records, records[:2], "torch", "paddle", rules=Rules(drops=(Drop("reference", "c.*"),)))
    assert dropped.complete
    assert dropped.dropped[0].note == "left out by a rule of the user's"


@pytest.mark.parametrize(
    ("rules", "said", "where"),
    [
        (Rules((Rename("x", "y"),)), "'x' speaks of no tensor of the reference", "[[rename]] number 1"),
        (Rules(drops=(Drop("candidate", "x"),)), "'x' speaks of no tensor of the candidate", "[[drop]] number 1"),
        (Rules(routes=(Route("x", "y"),)), "'x' speaks of no tensor of the reference", "[[route]] number 1"),
        (Rules(routes=(Route("a.weight", "y"),)), "a.weight is led to y, which the candidate lacks", "[[route]] number 1"),
        (
            Rules(routes=(Route("a.weight", "a.weight", "rows(0, 2)"),)),
            "a.weight has shape (2, 3) after rows(0, 2); its place in a.weight has (3, 4)",
            "[[route]] number 1",
        ),
        (
            Rules(routes=(Route("a.weight", "a.weight", "rows(0, 9)"),)),
            "rows(0, 9) does not fit a tensor of shape (4, 3) (a.weight)",
            "[[route]] number 1",
        ),
    ],
)
def test_rules_that_do_not_fit_the_models(rules, said, where):
    with pytest.raises(UsageError) as caught:
        plan(state(("a.weight", "Linear", (4, 3))), state(("a.weight", "Linear", (3, 4))), "torch", "paddle", rules=rules)
    assert (caught.value.what, caught.value.where) == (said, where)


def test_assembling_says_what_is_missing():
    result = plan(PADDLE_MHA, TORCH_MHA, "paddle", "torch")
    own = values(PADDLE_MHA)
    assert result.assemble("attn.in_proj_weight", lambda n: None if "k_proj" in n else own[n]) is None
    assert result.restore("attn.q_proj.weight", lambda _: None) is None
    with pytest.raises(UsageError, match="no tensor of the reference fills this one"):
        result.assemble("nowhere", own.get)
    with pytest.raises(UsageError, match="this tensor has no place in the candidate"):
        result.restore("nowhere", own.get)
    own["attn.k_proj.bias"] = Typed(np.zeros(8, "float64"), "float64")
    with pytest.raises(UsageError, match="the parts of this tensor have different element types: float32, float64"):
        result.assemble("attn.in_proj_bias", own.get)
    incomplete = dataclasses.replace(result, moves=[m for m in result.moves if "k_proj" not in m.reference.name])
    with pytest.raises(UsageError, match="only 16 of 24 elements have a source"):
        incomplete.assemble("attn.in_proj_bias", values(PADDLE_MHA).get)


def test_what_is_filled_in_part_is_no_target():
    """Nor is what has a place in part a source: a plan with a hole can be written, restored and reported."""
    holed = [r for r in PADDLE_MHA if "k_proj" not in r.name]
    result = plan(holed, TORCH_MHA, "paddle", "torch")
    assert {m.candidate.name for m in result.extra} == {"attn.in_proj_weight", "attn.in_proj_bias"}
    assert [t.name for t in result.targets] == ["attn.out_proj.weight", "attn.out_proj.bias"]
    incomplete = plan(TORCH_MHA, PADDLE_MHA, "torch", "paddle")
    incomplete.moves = [m for m in incomplete.moves if "k_proj" not in m.candidate.name]
    assert [r.name for r in incomplete.sources] == ["attn.out_proj.weight", "attn.out_proj.bias"]
    assert "attn.q_proj.weight" in [t.name for t in incomplete.targets]


def test_rows_tell_the_whole_plan():
    rows = plan(PADDLE_MHA, TORCH_MHA, "paddle", "torch").rows()
    assert ("attn.k_proj.weight", "transpose(1, 0)", "attn.in_proj_weight [rows(8, 16)]", "name", "") in rows
    assert len(rows) == 8


@pytest.mark.parametrize("seed", range(8))
def test_a_shuffled_declaration_of_a_renamed_encoder_is_found(seed):
    """The same encoder with other names and its layers declared in any order within a block."""
    parts = [
        ("attn.query", "q_proj"),
        ("attn.key", "k_proj"),
        ("attn.value", "v_proj"),
        ("attn.out", "o_proj"),
        ("mlp.up", "up_proj"),
        ("mlp.down", "down_proj"),
    ]
    order = parts[:]
    random.Random(seed).shuffle(order)
    reference = state(*(e for n in range(6) for one, _ in parts for e in linear(f"enc.{n}.{one}", 8, 8, "torch")))
    candidate = state(*(e for n in range(6) for _, other in order for e in linear(f"layers.{n}.{other}", 8, 8, "paddle")))
    result = plan(reference, candidate, "torch", "paddle")
    wanted = {
        f"enc.{n}.{one}.{leaf}": f"layers.{n}.{other}.{leaf}" for n in range(6) for one, other in parts for leaf in ("weight", "bias")
    }
    assert {m.reference.name: m.candidate.name for m in result.moves} == wanted


def norm(path, size, kind):
    return [(f"{path}.{leaf}", kind, (size,)) for leaf in ("weight", "bias")]


def test_layers_paired_otherwise_than_in_most_blocks_can_be_paired_as_there():
    ours, theirs = [], []
    for stage, block, inner, outer in ((1, 0, 3, 8), (1, 1, 8, 8), (2, 0, 8, 16), (2, 1, 16, 16)):
        path, twin = f"layer{stage}.{block}", f"stages.{stage - 1}.{block}"
        ours += [(f"{path}.conv1.weight", "Conv2d", (outer, inner, 3, 3)), *norm(f"{path}.bn1", outer, "BatchNorm2d")]
        ours += [(f"{path}.conv2.weight", "Conv2d", (outer, outer, 3, 3)), *norm(f"{path}.bn2", outer, "BatchNorm2d")]
        ours += [(f"{path}.downsample.0.weight", "Conv2d", (outer, inner, 1, 1)), *norm(f"{path}.downsample.1", outer, "BatchNorm2d")]
        theirs += [(f"{twin}.short.conv.weight", "Conv2D", (outer, inner, 1, 1)), *norm(f"{twin}.short.norm", outer, "BatchNorm2D")]
        theirs += [(f"{twin}.conv0.conv.weight", "Conv2D", (outer, inner, 3, 3)), *norm(f"{twin}.conv0.norm", outer, "BatchNorm2D")]
        theirs += [(f"{twin}.conv1.conv.weight", "Conv2D", (outer, outer, 3, 3)), *norm(f"{twin}.conv1.norm", outer, "BatchNorm2D")]
    result = plan(state(*ours), state(*theirs), "torch", "paddle")
    assert result.complete
    assert _uneven(result).options == []
    one, other = "stages.1.1.conv0.norm", "stages.1.1.short.norm"
    takes = {(f"{a}.{leaf}", None): (f"{b}.{leaf}", None) for leaf in ("weight", "bias") for a, b in ((one, other), (other, one))}
    wrong = result.choose(Option("", takes))
    assert moved(wrong) != moved(result)
    (option,) = _uneven(wrong).options
    assert moved(wrong.choose(option)) == moved(result)


def test_an_option_leaves_alone_what_an_earlier_choice_has_given_another_source():
    reference = state(("a.qkv.bias", "Linear", (24,)), ("a.out.bias", "Linear", (8,)))
    candidate = state(*((f"a.{n}_proj.bias", "Linear", (8,)) for n in "qkv"), ("a.out.bias", "Linear", (8,)))
    result = plan(reference, candidate, "torch", "paddle")
    queries, out = ("a.q_proj.bias", None), ("a.out.bias", None)
    heads = next(o for c in result.alternatives for o in c.options if o.note.startswith("2 heads"))
    exchanged = result.choose(Option("", {queries: out, out: queries})).choose(heads)
    ways = {m.candidate.name: m.transform for m in exchanged.moves}
    assert ways == {"a.q_proj.bias": None, "a.k_proj.bias": "heads(2, 3, 1)", "a.v_proj.bias": "heads(2, 3, 2)", "a.out.bias": "rows(0, 8)"}


@pytest.mark.parametrize("turned", [False, True])
def test_a_convolution_of_patches_is_a_linear_layer_of_them(turned):
    conv, dense = ("embed.weight", "Conv2d", (8, 3, 4, 4)), ("proj.weight", "Linear", (8, 48))
    ours, theirs = (dense, conv) if turned else (conv, dense)
    other = (theirs[0], theirs[1].replace("2d", "2D"), theirs[2] if turned else theirs[2][::-1])
    result = plan(state(ours), state(other), "torch", "paddle")
    (move,) = result.moves
    assert (move.reference.name, move.candidate.name) == (ours[0], theirs[0])
    assert move.transform == ("reshape(8, 3, 4, 4)" if turned else "reshape(8, 48) then transpose(1, 0)")
    assert "not transposed" not in move.note
    assert_round_trip(result, state(ours))


def test_a_convolution_is_no_linear_layer_of_other_sizes_nor_a_transposed_one():
    for conv in (("embed.weight", "Conv2d", (8, 3, 4, 5)), ("embed.weight", "ConvTranspose2d", (8, 3, 4, 4))):
        assert not plan(state(conv), state(("proj.weight", "Linear", (48, 8))), "torch", "paddle").moves


def test_own_normalisations_that_say_scale_and_shift_in_another_order_are_mapped():
    def layers(path, framework):
        if framework == "torch":
            return [(f"{path}.weight", "BatchNorm1d", (6,)), (f"{path}.bias", "BatchNorm1d", (6,))]
        return [(f"{path}.shift", "", (6,)), (f"{path}.scale", "", (6,))]

    reference = state(*(entry for n in range(3) for entry in layers(f"norms.{n}.bn", "torch")), *linear("out", 6, 6, "torch"))
    candidate = state(*(entry for n in range(3) for entry in layers(f"steps.{n}.norm", "paddle")), *linear("out", 6, 6, "paddle"))
    result = plan(reference, candidate, "torch", "paddle")
    assert result.complete
    found = {move.reference.name: move.candidate.name for move in result.moves}
    assert all(found[f"norms.{n}.bn.weight"] == f"steps.{n}.norm.scale" for n in range(3))
    assert all(found[f"norms.{n}.bn.bias"] == f"steps.{n}.norm.shift" for n in range(3))


def test_own_layers_that_normalise_their_weights_say_g_v_and_b():
    sizes = (32, 32, 20)

    def layer(path, size, framework):
        if framework == "torch":
            whole = ((f"{path}.bias", (size,)), (f"{path}.weight_g", (size, 1)), (f"{path}.weight_v", (size, 24)))
            return [(name, "Linear", shape) for name, shape in whole]
        return [(f"{path}.v", "", (24, size)), (f"{path}.g", "", (1, size)), (f"{path}.b", "", (size,))]

    paths = [
        [f"{net}.linears.{n}" for net in ("branch", "trunk") for n in range(3)],
        [f"{net}.{2 * n}" for net in ("branch", "trunk") for n in range(3)],
    ]
    reference, candidate = (
        state(*(entry for path, size in zip(names, sizes * 2, strict=True) for entry in layer(path, size, framework)))
        for names, framework in zip(paths, ("torch", "paddle"), strict=True)
    )
    found = {move.reference.name: move.candidate.name for move in plan(reference, candidate, "torch", "paddle", calls=tuple(paths)).moves}
    words = (("bias", "b"), ("weight_g", "g"), ("weight_v", "v"))
    assert found == {f"{first}.{theirs}": f"{second}.{own}" for first, second in zip(*paths, strict=True) for theirs, own in words}
