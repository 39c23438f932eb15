import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paralign.errors import UsageError
from paralign.weights.cheapest_pairing import assign
from paralign.weights.transforms import compose, keeps, put, reached, steps, take, undone


@pytest.mark.parametrize(
    ("transform", "shape", "expected"),
    [
        (None, (2, 3), lambda a: a),
        ("transpose(1, 0)", (2, 3), lambda a: a.T),
        ("reshape(3, 2)", (2, 3), lambda a: a.reshape(3, 2)),
        ("reshape()", (1, 1), lambda a: a.reshape(())),
        ("rows(1, 3)", (4, 2), lambda a: a[1:3]),
        ("columns(0, 1)", (4, 2), lambda a: a[:, :1]),
        ("heads(2, 3, 1)", (12, 2), lambda a: a.reshape(2, 3, 2, 2)[:, 1].reshape(4, 2)),
        ("heads(2, 4, 0, 2)", (16,), lambda a: a.reshape(2, 4, 2)[:, 0:2].reshape(8)),
        ("parts(2, 0, 1)", (6, 2), lambda a: np.concatenate([a[4:], a[:2], a[2:4]])),
        ("transpose(1, 0) then parts(1, 0) then rows(1, 3)", (2, 4), lambda a: np.concatenate([a.T[2:], a.T[:2]])[1:3]),
        ("transpose(1, 0) then rows(1, 2) then reshape(2)", (2, 3), lambda a: a[:, 1]),
    ],
)
def test_what_is_taken_is_put_back(transform, shape, expected):
    value = np.arange(np.prod(shape)).reshape(shape)
    taken = take(transform, value)
    assert np.array_equal(taken, expected(value))
    assert reached(transform, shape) == taken.shape
    target = np.full(shape, -1)
    put(transform, target, taken)
    assert np.array_equal(take(transform, target), taken)
    assert (target >= 0).sum() == taken.size  # nothing beside it was touched


PARTS = st.sampled_from(
    [
        ["rows(0, 8)", "rows(8, 16)", "rows(16, 24)"],
        ["heads(4, 3, 0)", "heads(4, 3, 1)", "heads(4, 3, 2)"],
        ["heads(2, 4, 0, 2)", "heads(2, 4, 2)", "heads(2, 4, 3)"],
        ["columns(0, 2)", "columns(2, 6)"],
        ["parts(2, 1, 0) then rows(0, 5)", "parts(2, 1, 0) then rows(5, 24)"],
        ["reshape(2, 72) then columns(0, 30)", "reshape(2, 72) then columns(30, 72)"],
        ["reshape(4, 6, 6) then transpose(1, 0, 2) then rows(0, 2)", "reshape(4, 6, 6) then transpose(1, 0, 2) then rows(2, 6)"],
        ["heads(4, 3, 0) then rows(0, 3)", "heads(4, 3, 0) then rows(3, 8)", "heads(4, 3, 1, 3)"],
    ]
)


@given(PARTS, st.booleans(), st.sampled_from(["float32", "uint16", "bool", "complex64"]))
def test_parts_make_the_whole(parts, turned, dtype):
    value = (np.arange(24 * 6) % 97).astype(dtype).reshape(24, 6)
    value = value.T if turned else value
    parts = [f"transpose(1, 0) then {p}" for p in parts] if turned else parts
    whole = np.zeros_like(value)
    for part in parts:
        put(part, whole, take(part, value))
    assert whole.tobytes() == value.tobytes()


@given(st.permutations(range(3)), st.permutations(range(3)))
def test_transpositions_that_meet_become_one(first, second):
    one, other = (f"transpose({', '.join(map(str, p))})" for p in (first, second))
    value = np.arange(24).reshape(2, 3, 4)
    together = compose(one, other)
    assert together is None or together.count("transpose") == 1
    assert np.array_equal(take(together, value), take(other, take(one, value)))
    assert np.array_equal(take(undone(together, value.shape), take(together, value)), value)


def test_what_takes_a_part_has_no_way_back_of_its_own():
    assert not keeps("transpose(1, 0) then rows(0, 1)")
    with pytest.raises(UsageError) as caught:
        undone("rows(0, 1)", (2, 2))
    assert str(caught.value) == "'rows(0, 1)' takes a part: it has no way back by itself\n  fix:   put the part back with put"


@pytest.mark.parametrize(
    "text",
    [
        "rows(2, 2)",
        "rows(3, 1)",
        "rows(1)",
        "columns(0)",
        "heads(0, 3, 1)",
        "heads(2, 3)",
        "heads(2, 3, 3)",
        "heads(2, 3, 1, 4)",
        "reshape(0)",
        "rows(0, 1) then",
        "rows(0, 1)then rows(0, 1)",
        "rows(-1, 1)",
        "rows(0, 9999999999999)",
        "turn(1, 0)",
        "rows(0, 1) then transpose(1, 1)",
    ],
)
def test_texts_that_are_no_transform(text):
    with pytest.raises(UsageError, match="is no transform of weights"):
        steps(text)


@pytest.mark.parametrize(
    ("text", "shape", "said"),
    [
        ("rows(0, 5)", (4, 2), "rows(0, 5) does not fit a tensor of shape (4, 2)"),
        ("columns(0, 1)", (4,), "columns(0, 1) does not fit"),
        ("heads(3, 2, 0)", (8, 2), "heads(3, 2, 0) does not fit"),
        ("reshape(3)", (4,), "reshape(3) does not fit"),
        ("rows(0, 1)", (), "rows(0, 1) does not fit"),
        ("transpose(1, 0)", (4,), "a transposition of 2 axes does not fit a tensor of 1"),
    ],
)
def test_transforms_that_do_not_fit(text, shape, said):
    with pytest.raises(UsageError) as caught:
        take(text, np.zeros(shape))
    assert said in str(caught.value)


def test_a_value_of_another_shape_is_not_put():
    with pytest.raises(UsageError, match=r"a value of shape \(3, 2\) does not fit rows\(0, 2\) of \(4, 2\)"):
        put("rows(0, 2)", np.zeros((4, 2)), np.zeros((3, 2)))


@given(st.integers(1, 5), st.integers(0, 2), st.randoms(use_true_random=False))
def test_the_assignment_is_the_cheapest(rows, more, random):
    costs = np.array([[random.choice([random.random(), float(random.randint(-3, 3))]) for _ in range(rows + more)] for _ in range(rows)])
    found = assign(costs)
    assert len(set(found)) == rows
    least = min(sum(costs[r, c] for r, c in enumerate(p)) for p in itertools.permutations(range(rows + more), rows))
    assert sum(costs[r, c] for r, c in enumerate(found)) == pytest.approx(least)


@pytest.mark.parametrize("costs", [np.zeros((3, 2)), np.array([[np.nan, 1.0]]), np.array([[np.inf]])])
def test_costs_that_cannot_be_assigned(costs):
    with pytest.raises(ValueError, match="finite costs and at least as many columns as rows"):
        assign(costs)
