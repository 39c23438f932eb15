"""The search for equal and near values among many, against looking at all of them."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paralign.capture import digest as digests
from paralign.locate.runs.counterparts import ALIKE, Matches, is_telling, ordered_distance, same_shape
from paralign.locate.runs.dataflow import Operation, Value
from paralign.model import Record

EQUAL = 1e-7


def value(array, number=0, digest=None, sketch=None, dtype=None):
    array = np.asarray(array)
    name = dtype or str(array.dtype)
    record = Record(number, "", "operations", "output", name, array.shape, digest=digests.moments(array) if digest is None else digest)
    return Value(record, sketch=sketch)


def reference(*arrays):
    values = {i: value(a, i) for i, a in enumerate(arrays)}
    return SimpleNamespace(values=values), list(values.values())


def drawn(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def test_equal_values_are_found_in_any_order_of_elements_and_shape():
    x = drawn(0, 4, 6)
    graph, values = reference(drawn(1, 4, 6), x, drawn(2, 24), x.T.copy(), x.reshape(2, 12) * (1 + 1e-3))
    matches = Matches(graph, EQUAL)
    assert matches.equals(value(x.reshape(24))) == [values[1], values[3]]
    assert matches.equals(value(x * (1 + 1e-9))) == [values[1], values[3]]
    assert matches.equals(value(x[:2])) == []


def test_the_nearest_is_found_where_none_is_equal():
    x = drawn(0, 5, 5)
    graph, values = reference(x * (1 + 1e-2), x * (1 - 1e-5), drawn(1, 5, 5))
    far, found = Matches(graph, EQUAL).nearest(value(x))
    assert found is values[1]
    assert far == pytest.approx(1e-5, rel=1e-3)


def test_what_is_too_far_is_not_alike():
    graph, _ = reference(drawn(1, 5, 5))
    assert Matches(graph, EQUAL).nearest(value(drawn(2, 5, 5) * 3)) == (math.inf, None)
    assert Matches(graph, EQUAL).nearest(value(drawn(2, 6))) == (math.inf, None)


def test_of_equals_the_first_is_the_nearest():
    x = drawn(0, 9)
    graph, values = reference(x, x.copy(), x.copy())
    assert Matches(graph, EQUAL).nearest(value(x)) == (0.0, values[0])


def test_constants_zeros_and_infinities():
    arrays = [np.zeros(9), np.full(9, 2.0), np.full(9, -2.0), np.array([1.0] * 8 + [np.inf]), np.array([1.0] * 8 + [np.nan])]
    graph, values = reference(*arrays)
    matches = Matches(graph, EQUAL)
    for array, known in zip(arrays, values, strict=True):
        assert matches.equals(value(array)) == [known]
    assert matches.equals(value(np.full(9, 1e-300))) == []


def test_what_cannot_be_read_matches_nothing():
    graph, _ = reference(drawn(1, 9))
    unread = value(drawn(1, 9))
    unread.record.digest = None
    matches = Matches(graph, EQUAL)
    assert matches.equals(unread) == []
    assert matches.nearest(unread) == (math.inf, None)
    assert Matches(SimpleNamespace(values={0: unread}), EQUAL).equals(value(drawn(1, 9))) == []


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    many=st.integers(1, 200),
    away=st.sampled_from([0.0, 1e-9, 1e-6, 1e-4, 1e-3, 2e-2, 0.04, 0.3]),
    scaled=st.booleans(),
)
def test_the_search_finds_what_looking_at_all_finds(seed, many, away, scaled):
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=16) * (1.0 if scaled else rng.lognormal(sigma=2)) for _ in range(many)]
    if scaled:
        arrays = [a / np.sqrt((a**2).mean()) for a in arrays]
    graph, values = reference(*arrays)
    own = value(arrays[seed % many] * (1 + away * rng.normal(size=16)))
    matches = Matches(graph, EQUAL)
    far = {v: digests.distance(v.digest, own.digest) for v in values}
    assert matches.equals(own) == [v for v in values if far[v] <= EQUAL]
    least = min(far.values())
    assert matches.nearest(own) == ((least, next(v for v in values if far[v] == least)) if least <= ALIKE else (math.inf, None))


def test_many_values_of_one_scale_are_searched_fast(monkeypatch):
    arrays = [a / np.sqrt((a**2).mean()) for a in drawn(0, 3000, 64)]
    graph, _ = reference(*arrays)
    matches, looked = Matches(graph, EQUAL), []
    distance = digests.distance
    monkeypatch.setattr(digests, "distance", lambda *two: looked.append(two) or distance(*two))
    for array in arrays[::10]:
        matches.nearest(value(array * (1 + 1e-4)))
    assert len(looked) < 10 * len(arrays[::10])


def test_copies_of_one_value_are_compared_once(monkeypatch):
    graph, _ = reference(*[np.zeros(16)] * 500)
    matches, looked = Matches(graph, EQUAL), []
    distance = digests.distance
    monkeypatch.setattr(digests, "distance", lambda *two: looked.append(two) or distance(*two))
    for number in range(500):
        matches.nearest(value(np.zeros(16), number))
    assert len(looked) <= 1000


# -- what a match says -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("array", "telling"),
    [
        (drawn(0, 8), True),
        (drawn(0, 3), True),
        (np.zeros(100), False),
        (np.ones(100), False),
        (np.array(0.5), False),
        (np.array(0.123456789), True),
        (np.arange(8), False),
        (np.arange(24), True),
        (np.zeros(0), False),
    ],
)
def test_values_that_tell(array, telling):
    assert is_telling(value(array)) is telling


def test_order_is_told_by_sketches_of_values_of_one_shape():
    from paralign.capture.sketch import sketch

    x = drawn(0, 4, 6)
    same, turned = value(x, sketch=sketch(x)), value(x.T.copy().reshape(4, 6), sketch=sketch(x.T.copy()))
    assert ordered_distance(same, same) == 0.0
    assert ordered_distance(same, turned) > 0.5
    assert ordered_distance(same, value(x.reshape(1, 4, 6), sketch=sketch(x))) == 0.0
    assert ordered_distance(same, value(x.reshape(6, 4), sketch=sketch(x))) is None
    assert ordered_distance(same, value(x)) is None
    assert same_shape(value(x), value(x.reshape(4, 1, 6)))


def test_the_numbers_of_an_operation_are_those_of_its_arguments_alone():
    arguments = {"alpha": 2, "beta": -0.5, "keepdim": True, "axes": [3, 4], "mode": "same", "out": None}
    assert Operation(0, "add", "add", "", (), arguments, random=False, inputs=[]).numbers == [-0.5, 2.0]
    assert Operation(0, "add", "add", "", (), {}, random=False, inputs=[]).numbers == []


@pytest.mark.parametrize(("shape", "size"), [((), 1), ((3,), 3), ((2, 0, 4), 0), ((2, 3, 4), 24)])
def test_a_value_has_as_many_elements_as_its_shape_says(shape, size):
    assert Value(SimpleNamespace(shape=shape)).size == size
