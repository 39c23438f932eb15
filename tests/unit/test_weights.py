from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paralign.dtypes import STORAGE, Typed
from paralign.errors import UsageError
from paralign.model import Record
from paralign.weights import SHARED, Move, apply, invert, plan
from paralign.weights.layouts import layer
from paralign.weights.transforms import reached, steps, transpose

BUFFERS = ("running_mean", "running_var", "_mean", "_variance", "num_batches_tracked")


def state(*entries):
    """Records from (name, kind, shape[, attrs]); names that end in a buffer's are buffers."""
    records = []
    for number, (name, kind, shape, *more) in enumerate(entries):
        owner, _, leaf = name.rpartition(".")
        attrs = {"owner": owner, "leaf": leaf, "kind": kind, "trainable": True, "shared": None, "persistent": True}
        attrs.update(*more)
        role = attrs.pop("role", "buffer" if leaf in BUFFERS else "parameter")
        records.append(Record(number, name, "weights", role, attrs.pop("dtype", "float32"), shape, attrs=attrs))
    return records


def moved(result):
    return {m.reference.name: (m.candidate.name, m.transform, m.how) for m in result.moves}


def notes(moves):
    return {(m.reference or m.candidate).name: m.note for m in moves}


TORCH = state(
    ("conv.weight", "Conv2d", (8, 3, 3, 3)),
    ("bn.weight", "BatchNorm2d", (8,)),
    ("bn.bias", "BatchNorm2d", (8,)),
    ("bn.running_mean", "BatchNorm2d", (8,)),
    ("bn.running_var", "BatchNorm2d", (8,)),
    ("bn.num_batches_tracked", "BatchNorm2d", (), {"dtype": "int64"}),
    ("fc.weight", "Linear", (10, 8)),
    ("fc.bias", "Linear", (10,)),
)
PADDLE = state(
    ("conv.weight", "Conv2D", (8, 3, 3, 3)),
    ("bn.weight", "BatchNorm2D", (8,)),
    ("bn.bias", "BatchNorm2D", (8,)),
    ("bn._mean", "BatchNorm2D", (8,)),
    ("bn._variance", "BatchNorm2D", (8,)),
    ("fc.weight", "Linear", (8, 10)),
    ("fc.bias", "Linear", (10,)),
)


def test_the_mapping_of_the_guides():
    result = plan(TORCH, PADDLE, "torch", "paddle")
    assert moved(result) == {
        "conv.weight": ("conv.weight", None, "name"),
        "bn.weight": ("bn.weight", None, "name"),
        "bn.bias": ("bn.bias", None, "name"),
        "bn.running_mean": ("bn._mean", None, "name"),
        "bn.running_var": ("bn._variance", None, "name"),
        "fc.weight": ("fc.weight", "transpose(1, 0)", "name"),
        "fc.bias": ("fc.bias", None, "name"),
    }
    assert notes(result.dropped) == {"bn.num_batches_tracked": "only counts calls; the other side has none"}
    assert result.complete
    assert not result.ambiguous
    assert all(not m.note for m in result.moves)


def test_the_other_direction():
    result = plan(PADDLE, TORCH, "paddle", "torch")
    assert moved(result)["bn._variance"] == ("bn.running_var", None, "name")
    assert moved(result)["fc.weight"] == ("fc.weight", "transpose(1, 0)", "name")
    assert result.dropped[0].candidate.name == "bn.num_batches_tracked"
    assert result.complete


@pytest.mark.parametrize(("records", "framework"), [(TORCH, "torch"), (PADDLE, "paddle")])
def test_within_one_framework_everything_stays_as_it_is(records, framework):
    result = plan(records, records, framework, framework)
    assert moved(result) == {r.name: (r.name, None, "name") for r in records}
    assert result.complete
    assert not result.dropped


def test_layouts_go_by_kind_not_by_shape():
    kinds = ["Linear", "NonDynamicallyQuantizableLinear", "Embedding", "", "LSTM"]
    reference = state(*((f"{i}.weight", kind, (8, 8)) for i, kind in enumerate(kinds)))
    kinds[1] = "Linear"
    candidate = state(*((f"{i}.weight", kind, (8, 8)) for i, kind in enumerate(kinds)))
    turned = "transpose(1, 0)"
    assert [m.transform for m in plan(reference, candidate, "torch", "paddle").moves] == [turned, turned, None, None, None]


def test_a_linear_against_a_layer_of_the_users_own_is_not_turned():
    result = plan(state(("fc.weight", "Linear", (8, 8))), state(("fc.weight", "", (8, 8))), "torch", "paddle")
    assert result.moves[0].transform is None
    assert "not transposed" not in result.moves[0].note  # torch's layout is the neutral one: nothing would have been turned
    result = plan(state(("fc.weight", "", (8, 8))), state(("fc.weight", "Linear", (8, 8))), "torch", "paddle")
    assert result.moves[0].note == (
        "layer: one of the user's own in the reference, Linear in the candidate; taken as it is, not transposed"
    )


def test_unless_its_shape_fits_in_no_other_way():
    result = plan(state(("fc.weight", "", (8, 4))), state(("fc.weight", "Linear", (4, 8))), "torch", "paddle")
    assert result.moves[0].transform == "transpose(1, 0)"
    assert result.moves[0].note == "layer: one of the user's own in the reference, Linear in the candidate"
    result = plan(state(("fc.weight", "", (8, 5))), state(("fc.weight", "Linear", (4, 8))), "torch", "paddle")
    assert not result.moves
    assert result.missing[0].note == "fc.weight has shape (8, 5) in the reference; fc.weight has (4, 8) in the candidate"


def test_shapes_that_do_not_fit_are_named_on_both_sides():
    result = plan(
        state(("fc.weight", "Linear", (10, 8)), ("fc.bias", "Linear", (10,))),
        state(("fc.weight", "Linear", (8, 12)), ("fc.bias", "Linear", (10,))),
        "torch",
        "paddle",
    )
    said = "fc.weight has shape (10, 8) in the reference, (8, 10) after transpose(1, 0); fc.weight has (8, 12) in the candidate"
    assert notes(result.missing) == notes(result.extra) == {"fc.weight": said}
    assert result.missing[0].candidate is None
    assert result.extra[0].reference is None
    assert list(moved(result)) == ["fc.bias"]
    assert not result.complete


def test_other_names_are_matched_by_order_within_kind_and_shape():
    reference = state(
        ("a.weight", "Conv2d", (4, 3, 1, 1)),
        ("b.weight", "BatchNorm2d", (4,)),
        ("b.running_mean", "BatchNorm2d", (4,)),
        ("c.weight", "RNN", (4, 4)),
        ("d.weight", "Linear", (6, 5)),
    )
    candidate = state(
        ("w.weight", "Linear", (5, 6)),
        ("x.weight", "SyncBatchNorm", (4,)),
        ("x._mean", "SyncBatchNorm", (4,)),
        ("y.weight", "SimpleRNN", (4, 4)),
        ("z.weight", "Conv2D", (4, 3, 1, 1)),
    )
    result = plan(reference, candidate, "torch", "paddle")
    assert moved(result) == {
        "a.weight": ("z.weight", None, "order"),
        "b.weight": ("x.weight", None, "order"),
        "b.running_mean": ("x._mean", None, "order"),
        "c.weight": ("y.weight", None, "order"),
        "d.weight": ("w.weight", "transpose(1, 0)", "order"),
    }
    assert result.complete
    assert not result.ambiguous


def test_a_layer_moves_as_a_whole():
    """Biases of equal shape follow the weights that tell their layers apart."""
    reference = state(
        ("a.weight", "Linear", (4, 3)), ("a.bias", "Linear", (4,)), ("b.weight", "Linear", (4, 5)), ("b.bias", "Linear", (4,))
    )
    candidate = state(
        ("y.bias", "Linear", (4,)), ("y.weight", "Linear", (5, 4)), ("x.bias", "Linear", (4,)), ("x.weight", "Linear", (3, 4))
    )
    result = plan(reference, candidate, "torch", "paddle")
    assert {k: v[0] for k, v in moved(result).items()} == {
        "a.weight": "x.weight",
        "a.bias": "x.bias",
        "b.weight": "y.weight",
        "b.bias": "y.bias",
    }
    assert not result.ambiguous


def test_several_possible_orders_are_named():
    reference = state(("a.weight", "Linear", (4, 4)), ("b.weight", "Linear", (4, 4)), ("same.weight", "Linear", (4, 4)))
    candidate = state(("same.weight", "Linear", (4, 4)), ("x.weight", "Linear", (4, 4)), ("y.weight", "Linear", (4, 4)))
    result = plan(reference, candidate, "torch", "paddle")
    assert moved(result)["same.weight"][2] == "name"
    assert [(a.reference, a.candidate, a.note) for a in result.ambiguous] == [
        (
            ["a.weight", "b.weight"],
            ["x.weight", "y.weight"],
            "2 times layer Linear with weight (4, 4): other orders than that of definition fit as well",
        )
    ]
    assert result.complete


def test_unequal_numbers_are_not_guessed_at():
    reference = state(("a.weight", "Linear", (4, 4)), ("b.weight", "Linear", (4, 4)))
    result = plan(reference, state(("x.weight", "Linear", (4, 4))), "torch", "paddle")
    assert not result.moves
    assert notes(result.extra) == {
        "x.weight": "no counterpart of this name; of layer Linear, leaf 'weight' and shape (4, 4), 2 left over in the "
        "reference and 1 in the candidate"
    }
    assert set(notes(result.missing)) == {"a.weight", "b.weight"}


def test_a_missing_bias_does_not_hide_the_weight():
    reference = state(("a.weight", "Linear", (4, 3)), ("a.bias", "Linear", (4,)))
    result = plan(reference, state(("x.weight", "Linear", (3, 4))), "torch", "paddle")
    assert moved(result) == {"a.weight": ("x.weight", "transpose(1, 0)", "order")}
    assert set(notes(result.missing)) == {"a.bias"}


def test_numbered_layers_that_are_shifted_go_by_kind():
    reference = state(("0.weight", "Conv2d", (4, 3, 1, 1)), ("1.weight", "BatchNorm2d", (4,)), ("2.weight", "LayerNorm", (4,)))
    candidate = state(("0.weight", "Conv2D", (4, 3, 1, 1)), ("1.weight", "LayerNorm", (4,)), ("2.weight", "BatchNorm2D", (4,)))
    assert {k: v[0] for k, v in moved(plan(reference, candidate, "torch", "paddle")).items()} == {
        "0.weight": "0.weight",
        "1.weight": "2.weight",
        "2.weight": "1.weight",
    }


def test_equal_names_in_unlike_layers_are_a_last_resort_and_said():
    result = plan(state(("e.weight", "EmbeddingBag", (9, 4))), state(("e.weight", "Embedding", (9, 4))), "torch", "paddle")
    assert moved(result) == {"e.weight": ("e.weight", None, "name")}
    assert result.moves[0].note == "layer: EmbeddingBag in the reference, Embedding in the candidate"


def test_leaves_that_a_framework_calls_otherwise():
    reference = state(
        ("i.weight", "InstanceNorm2d", (4,)), ("p.weight", "PReLU", (1,)), ("own.running_mean", "", (4,)), ("own2.running_var", "", (4,))
    )
    candidate = state(
        ("i.scale", "InstanceNorm2D", (4,)), ("p._weight", "PReLU", (1,)), ("own.running_mean", "", (4,)), ("own2._variance", "", (4,))
    )
    assert [v[0] for v in moved(plan(reference, candidate, "torch", "paddle")).values()] == [
        "own.running_mean",
        "i.scale",
        "p._weight",
        "own2._variance",
    ]


def test_buffers_that_are_computed_are_dropped_where_they_have_no_twin():
    computed = {"role": "buffer", "persistent": False}
    reference = state(
        ("rope.inv_freq", "", (4,), computed), ("both.mask", "", (4,), computed), ("kept.index", "", (4,), {"role": "buffer"})
    )
    candidate = state(("both.mask", "", (4,)), ("own.cache", "", (2,), computed))
    result = plan(reference, candidate, "torch", "paddle")
    said = "a buffer that is computed, not stored; the other side has none"
    assert notes(result.dropped) == {"rope.inv_freq": said, "own.cache": said}
    assert result.moves[0].note == "role: buffer in the reference, parameter in the candidate"
    assert set(notes(result.missing)) == {"kept.index"}


def test_differences_of_type_and_training_are_said():
    result = plan(state(("a", "", (4,))), state(("a", "", (4,), {"dtype": "float16", "trainable": False})), "torch", "paddle")
    assert result.moves[0].note == (
        "element type: float32 in the reference, float16 in the candidate; trainable: True in the reference, False in the candidate"
    )


def test_tied_tensors_follow_their_entry():
    tied = state(("emb.weight", "Embedding", (9, 4)), ("head.weight", "", (9, 4), {"shared": "emb.weight"}))
    result = plan(tied, tied, "torch", "paddle")
    assert moved(result) == {"emb.weight": ("emb.weight", None, "name"), "head.weight": ("head.weight", None, SHARED)}
    assert [(held.name, move.candidate.name) for held, move in result.transfers] == [("emb.weight", "emb.weight")]
    result = plan(tied, tied[:1], "torch", "paddle")
    assert notes(result.dropped) == {"head.weight": "one tensor with emb.weight, whose values have their place"}
    assert result.complete


def test_tied_on_both_sides_under_another_first_name():
    reference = state(("emb.weight", "", (9, 4)), ("head.weight", "", (9, 4), {"shared": "emb.weight"}))
    candidate = state(("head.weight", "", (9, 4)), ("emb.weight", "", (9, 4), {"shared": "head.weight"}))
    result = plan(reference, candidate, "torch", "paddle")
    assert result.complete
    assert [(held.name, move.candidate.name) for held, move in result.transfers] == [("emb.weight", "head.weight")]
    assert moved(result)["emb.weight"][2] == SHARED


def test_tied_in_the_reference_alone_fills_both():
    reference = state(("emb.weight", "Embedding", (9, 4)), ("head.weight", "Linear", (9, 4), {"shared": "emb.weight"}))
    candidate = state(("emb.weight", "Embedding", (9, 4)), ("head.weight", "Linear", (4, 9)))
    result = plan(reference, candidate, "torch", "paddle")
    assert [(held.name, move.candidate.name, move.transform) for held, move in result.transfers] == [
        ("emb.weight", "emb.weight", None),
        ("emb.weight", "head.weight", "transpose(1, 0)"),
    ]
    assert result.moves[1].note == "one tensor with emb.weight in the reference, apart in the candidate"


def test_tied_in_the_candidate_alone_is_incomplete():
    apart = state(("emb.weight", "", (9, 4)), ("head.weight", "", (9, 4)))
    tied = state(("emb.weight", "", (9, 4)), ("head.weight", "", (9, 4), {"shared": "emb.weight"}))
    result = plan(apart, tied, "torch", "paddle")
    assert notes(result.missing) == {
        "head.weight": "the candidate holds head.weight and emb.weight as one tensor, which is filled from "
        "emb.weight; the reference keeps them apart or lays them out otherwise"
    }
    assert notes(result.dropped) == {"head.weight": "one tensor with emb.weight, whose values have their place"}
    assert not result.complete


def test_a_missing_entry_takes_its_aliases_along():
    tied = state(("a.weight", "", (9, 4)), ("b.weight", "", (9, 4), {"shared": "a.weight"}))
    result = plan(tied, [], "torch", "paddle")
    assert set(notes(result.missing)) == {"a.weight", "b.weight"}


def test_nothing_is_complete_and_empty():
    result = plan([], [], "torch", "paddle")
    assert result.complete
    assert not result.moves


def test_a_name_that_comes_twice_is_refused():
    with pytest.raises(UsageError) as caught:
        plan(state(("a", "", (1,)), ("a", "", (1,))), [], "torch", "paddle")
    assert str(caught.value) == (
        "the reference has two tensors of this name\n  where: a\n  fix:   hand over parameters and buffers of one model, each once"
    )


@pytest.mark.parametrize(
    "entries",
    [
        [("a", "", (1,), {"shared": "nowhere"})],
        [("a", "", (1,), {"shared": "a"})],
        [("a", "", (1,), {"shared": "b"}), ("b", "", (1,), {"shared": "a"})],
    ],
)
def test_sharing_that_leads_nowhere_is_refused(entries):
    with pytest.raises(UsageError, match=r"the candidate says that this tensor is shared with '\w+', which is no tensor that holds values"):
        plan([], state(*entries), "torch", "paddle")


@st.composite
def states(draw):
    names = draw(
        st.lists(
            st.builds(
                "{}.{}".format,
                st.sampled_from("abcd"),
                st.sampled_from(["weight", "bias", "running_mean", "_mean", "num_batches_tracked", "scale"]),
            ),
            unique=True,
            max_size=10,
        )
    )
    layers = st.sampled_from(["Linear", "Conv2d", "Conv2D", "BatchNorm2d", "BatchNorm2D", "", "InstanceNorm2D"])
    kinds = {owner: draw(layers) for owner in "abcd"}
    entries = []
    for name in names:
        roots = [e[0] for e in entries if e[3]["shared"] is None]
        attrs = {
            "shared": draw(st.sampled_from([None, None, None, *roots])),
            "persistent": draw(st.booleans()),
            "role": draw(st.sampled_from(["parameter", "buffer"])),
        }
        entries.append((name, kinds[name[0]], draw(st.sampled_from([(), (2,), (2, 2), (2, 3), (3, 2)])), attrs))
    return state(*entries)


@given(states(), states(), st.sampled_from(["torch", "paddle", "numpy"]), st.sampled_from(["torch", "paddle", "numpy"]))
def test_every_tensor_is_in_exactly_one_place(reference, candidate, one, other):
    result = plan(reference, candidate, one, other)
    places = [*result.moves, *result.dropped, *result.missing, *result.extra]
    assert Counter(m.reference.name for m in places if m.reference) == Counter(r.name for r in reference)
    assert Counter(m.candidate.name for m in places if m.candidate) == Counter(r.name for r in candidate)
    assert all(m.reference and m.candidate for m in result.moves)
    assert all(bool(m.reference) != bool(m.candidate) and m.note for m in (*result.dropped, *result.missing, *result.extra))
    for move in result.moves:
        if move.how != SHARED:
            assert reached(move.transform, move.reference.shape) == tuple(move.candidate.shape)
    assert all(held.attrs["shared"] is None for held, _ in result.transfers)
    written = [m.candidate.attrs["shared"] or m.candidate.name for _, m in result.transfers]
    assert len(written) == len(set(written))  # no tensor is written twice


@given(states(), st.sampled_from(["torch", "paddle"]))
def test_a_model_is_complete_against_itself(records, framework):
    result = plan(records, records, framework, framework)
    assert result.complete
    assert moved(result).keys() == {r.name for r in records}


def square(transform, shape=(3, 5), after=(5, 3)):
    records = [Record(i, n, "weights", "parameter", "float32", s) for i, (n, s) in enumerate((("one", shape), ("other", after)))]
    return Move(records[0], records[1], transform, "name")


@pytest.mark.parametrize("dtype", sorted(STORAGE))
@pytest.mark.parametrize("transform", ["transpose(1, 0)", None])
def test_a_round_trip_keeps_every_bit(dtype, transform):
    storage = STORAGE[dtype]
    random = np.random.default_rng(0).integers(0, 256, 15 * storage.itemsize, dtype=np.uint8)
    bits = (random & 1).view(bool) if dtype == "bool" else random.view(storage)
    value = Typed(bits.reshape(3, 5), dtype)
    move = square(transform, after=(5, 3) if transform else (3, 5))
    there = apply(move, value)
    assert there.array.shape == move.candidate.shape
    assert there.dtype == dtype
    back = invert(move, there)
    assert back.array.tobytes() == value.array.tobytes()
    if transform:
        assert there.array.tobytes() == value.array.T.tobytes()


@given(st.permutations(range(4)))
def test_any_transposition_is_undone(axes):
    value = Typed(np.arange(120).reshape(2, 3, 4, 5), "int64")
    move = square(transpose(axes), (2, 3, 4, 5), tuple((2, 3, 4, 5)[a] for a in axes))
    assert not steps(transpose(axes)) or steps(transpose(axes))[0].numbers == tuple(axes)
    assert np.array_equal(invert(move, apply(move, value)).array, value.array)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "transpose",
        "transpose()",
        "transpose(0, 0)",
        "transpose(1, 2)",
        "transpose(1, 0); x",
        "reshape(1, 0)",
        "transpose(-1, 0)",
        "__import__('os').abort()",
        "transpose(1, 0)\n",
    ],
)
def test_other_texts_are_no_transform(text):
    with pytest.raises(UsageError) as caught:
        apply(square(text), Typed(np.zeros((3, 5), "float32"), "float32"))
    assert str(caught.value) == (
        f"{text!r} is no transform of weights\n"
        "  fix:   write it as transpose(1, 0), each axis once, or leave it out; "
        "reshape, rows, columns, heads and parts are the others, joined by ' then '"
    )


def test_values_of_another_shape_are_refused():
    with pytest.raises(UsageError) as caught:
        apply(square("transpose(1, 0)"), Typed(np.zeros((5, 3), "float32"), "float32"))
    assert str(caught.value).splitlines()[:2] == ["the values have shape (5, 3), the plan was made for (3, 5)", "  where: one"]
    with pytest.raises(UsageError, match=r"the values have shape \(3, 5\), the plan was made for \(5, 3\)"):
        invert(square("transpose(1, 0)"), Typed(np.zeros((3, 5), "float32"), "float32"))
    with pytest.raises(UsageError, match="a transposition of 3 axes does not fit a tensor of 2"):
        apply(square("transpose(2, 1, 0)"), Typed(np.zeros((3, 5), "float32"), "float32"))


def test_a_tensor_without_a_twin_cannot_be_moved():
    move = square(None)
    move.candidate, move.note = None, "no counterpart of this name"
    with pytest.raises(UsageError) as caught:
        apply(move, Typed(np.zeros((3, 5), "float32"), "float32"))
    assert str(caught.value) == "this tensor has no counterpart to be moved to\n  where: one\n  fix:   no counterpart of this name"


@pytest.mark.parametrize(
    ("torch", "paddle"),
    [
        ("Conv2d", "Conv2D"),
        ("ConvTranspose2d", "Conv2DTranspose"),
        ("BatchNorm1d", "BatchNorm1D"),
        ("BatchNorm2d", "BatchNorm"),
        ("RNN", "SimpleRNN"),
        ("RNNCell", "SimpleRNNCell"),
        ("MultiheadAttention", "MultiHeadAttention"),
        ("SiLU", "Silu"),
        ("AdaptiveAvgPool2d", "AdaptiveAvgPool2D"),
        ("Dropout", "Dropout"),
        ("NonDynamicallyQuantizableLinear", "Linear"),
        ("", ""),
    ],
)
def test_kinds_of_the_frameworks_meet(torch, paddle):
    assert layer(torch) == layer(paddle)


def test_a_large_model_is_planned_in_linear_time():
    """Twenty thousand renamed tensors: quadratic matching would take minutes."""
    reference = state(*((f"a{i}.weight", "Linear", (4, 3)) for i in range(20_000)))
    candidate = state(*((f"b{i}.weight", "Linear", (3, 4)) for i in range(20_000)))
    result = plan(reference, candidate, "torch", "paddle")
    assert len(result.moves) == 20_000
    assert result.complete
