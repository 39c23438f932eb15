from hypothesis import given
from hypothesis import strategies as st

from paralign.align import leaves
from paralign.model import Record


def records(*keys, start=0, **fields):
    """Records from ``name:leaf`` texts."""
    return [
        Record(start + i, key.partition(":")[0], "forward", "output", "float32", (2,), leaf=key.partition(":")[2], **fields)
        for i, key in enumerate(keys)
    ]


def paired(reference, candidate):
    return [(r and r.key, c and c.key, how) for r, c, how in leaves(reference, candidate)]


def test_equal_keys_meet_whatever_their_order():
    assert paired(records("a", "b:0", "b:1"), records("b:1", "a", "b:0")) == [
        ("a", "a", "name"),
        ("b.0", "b.0", "name"),
        ("b.1", "b.1", "name"),
    ]


def test_a_tensor_meets_the_only_element_of_a_tuple():
    assert paired(records("output"), records("output:0")) == [("output", "output.0", "structure")]
    assert paired(records("output:logits"), records("output")) == [("output.logits", "output", "structure")]


def test_the_elements_of_a_tuple_meet_the_values_of_a_dict_in_order():
    assert paired(records("output:0", "output:1", "loss"), records("loss", "output:logits", "output:hidden")) == [
        ("output.0", "output.logits", "structure"),
        ("output.1", "output.hidden", "structure"),
        ("loss", "loss", "name"),
    ]


def test_what_has_the_same_name_meets_before_what_has_not():
    assert paired(records("a", "b", "output"), records("output:0", "c")) == [
        ("a", None, "unmatched"),
        ("b", None, "unmatched"),
        ("output", "output.0", "structure"),
        (None, "c", "unmatched"),
    ]


def test_other_names_meet_by_order_where_both_have_as_many():
    assert paired(records("logits", "mask"), records("scores", "valid")) == [
        ("logits", "scores", "structure"),
        ("mask", "valid", "structure"),
    ]


def test_unequal_numbers_are_left_alone():
    assert paired(records("output:0", "output:1"), records("output:a", "output:b", "output:c")) == [
        ("output.0", None, "unmatched"),
        ("output.1", None, "unmatched"),
        (None, "output.a", "unmatched"),
        (None, "output.b", "unmatched"),
        (None, "output.c", "unmatched"),
    ]
    assert paired(records("output:0", "output:1"), records("output:0", "output:b", "output:c")) == [
        ("output.0", "output.0", "name"),
        ("output.1", None, "unmatched"),
        (None, "output.b", "unmatched"),
        (None, "output.c", "unmatched"),
    ]


def test_steps_calls_ranks_and_roles_are_kept_apart():
    for field in "step", "call", "rank":
        assert paired(records("a", **{field: 0}), records("a", **{field: 1})) == [("a", None, "unmatched"), (None, "a", "unmatched")]
    state = records("a")
    state[0].role = "gradient"
    assert paired(records("a"), state) == [("a", None, "unmatched"), (None, "a", "unmatched")]
    both = records("a", step=0) + records("a", step=1)
    assert [(r.step, c.step) for r, c, _ in leaves(both, both[::-1])] == [(0, 0), (1, 1)]


def test_the_same_key_twice_meets_in_order():
    reference, candidate = records("a", "a"), records("a", "a", "a", start=10)
    assert [(r and r.id, c and c.id) for r, c, _ in leaves(reference, candidate)] == [(0, 10), (1, 11), (None, 12)]


def test_nothing_meets_nothing():
    assert leaves([], []) == []
    assert paired([], records("a")) == [(None, "a", "unmatched")]


KEYS = st.lists(st.tuples(st.sampled_from(["a", "b", "a:0", "a:1", "b:x", "c:0.y"]), st.integers(0, 1), st.integers(0, 1)), max_size=8)


def drawn(keys, start):
    return [records(key, start=start + i, step=step, call=call)[0] for i, (key, step, call) in enumerate(keys)]


@given(KEYS, KEYS)
def test_no_record_is_lost_or_used_twice(reference, candidate):
    reference, candidate = drawn(reference, 0), drawn(candidate, 100)
    found = leaves(reference, candidate)
    assert [r.id for r, _, _ in found if r] == [r.id for r in reference]
    assert sorted(c.id for _, c, _ in found if c) == [c.id for c in candidate]
    for one, other, how in found:
        assert (how == "unmatched") == (one is None or other is None)
        if one and other:
            assert (one.step, one.call) == (other.step, other.call)
            assert how == "structure" or one.key == other.key


@given(KEYS)
def test_a_side_meets_itself_by_name(keys):
    side = drawn(keys, 0)
    assert all(one is other and how == "name" for one, other, how in leaves(side, side))
