"""The outputs of an exported program, in the order in which the model gives them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from paralign.worker.predictions.output_order import in_order

SESSION = SimpleNamespace(adapter=SimpleNamespace(is_tensor=lambda value: isinstance(value, np.ndarray)))
SESSION.adapter.to_array = lambda value: SimpleNamespace(array=value, dtype=str(value.dtype))

A, B, C = (np.full((2, 3), number) for number in (1.0, 2.0, 3.0))


def test_outputs_that_come_sorted_by_name():
    found, names = in_order(SESSION, {"z": A, "m": {"y": B, "b": C}}, [C, B, A])
    assert names == ["m.b", "m.y", "z"]
    assert [value is due for value, due in zip(found, (A, B, C), strict=True)] == [True] * 3


def test_infinite_and_missing_numbers_do_not_hide_the_order():
    masked, nothing = np.array([[1.0, -np.inf]]), np.array([[np.nan, 2.0]])
    found, names = in_order(SESSION, {"z": masked, "a": nothing}, [nothing, masked])
    assert names == ["a", "z"]
    assert found[0] is masked


def test_outputs_in_their_own_order_stay_as_they_are():
    for eager, exported in (
        ({"z": A, "a": B}, [A, B]),
        ({"a": A, "b": B}, [A, B]),
        (A, A),
        ({"z": A, "a": B}, {"z": A, "a": B}),
        ([A], [A, B]),
    ):
        assert in_order(SESSION, eager, exported) == (exported, [])


def test_places_in_lists_are_numbers_and_signs_are_not():
    eager = {"x": [A] * 10 + [B], "²": C}
    found, names = in_order(SESSION, eager, [A] * 10 + [B, C])
    assert names == []
    assert found[10] is B


def test_other_shapes_stay_as_they_are():
    assert in_order(SESSION, {"z": A, "a": np.zeros(4)}, [A, np.zeros(5)])[1] == []
