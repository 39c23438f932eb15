"""Fingerprints by the bytes of a value: same bytes, same answer; anything else is computed."""

from __future__ import annotations

import numpy as np
import pytest

from paralign.dtypes import typed
from paralign.worker.values import fingerprints
from paralign.worker.values.fingerprints import Fingerprint, Fingerprints, key_of


def test_equal_bytes_have_one_key_whatever_the_shape():
    value = np.arange(24.0)
    assert key_of(typed(value)) == key_of(typed(value.reshape(2, 3, 4)))


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(np.arange(24.0)[::-1].copy(), id="order"),
        pytest.param(np.arange(24.0).astype("float32"), id="type"),
        pytest.param(np.arange(24.0).view("int64"), id="same bits of another type"),
        pytest.param(np.arange(23.0), id="size"),
        pytest.param(np.where(np.arange(24) == 7, np.nextafter(7.0, 8.0), np.arange(24.0)), id="one unit in the last place"),
        pytest.param(np.where(np.arange(24) == 0, -0.0, np.arange(24.0)), id="minus zero"),
    ],
)
def test_any_other_bytes_have_another_key(other):
    assert key_of(typed(other)) != key_of(typed(np.arange(24.0)))


def test_blocks_of_a_large_value_are_told_apart(monkeypatch):
    monkeypatch.setattr(fingerprints, "BLOCK", 64)
    value = np.arange(24.0)
    swapped = np.concatenate((value[8:16], value[:8], value[16:]))
    assert key_of(typed(swapped)) != key_of(typed(value))
    assert len(key_of(typed(value))[2]) == 3


def test_what_does_not_lie_in_order_is_not_looked_up():
    assert key_of(typed(np.arange(24.0).reshape(4, 6).T)) is None
    assert key_of(typed(np.arange(24.0)[::2])) is None
    assert Fingerprints().find(None) is None


def test_a_scalar_and_an_empty_value_have_keys():
    assert key_of(typed(np.float64(3.0))) != key_of(typed(np.float64(4.0)))
    assert key_of(typed(np.zeros((0, 3)))) is not None


def test_a_full_table_takes_no_more_and_keeps_what_it_has():
    table = Fingerprints(budget=3 * 80)
    for number in range(6):
        table.keep(key_of(typed(np.full(2, float(number)))), Fingerprint("", np.zeros(10), None))
    assert (len(table), table.is_full) == (3, True)
    assert table.find(key_of(typed(np.full(2, 0.0)))) is not None
    assert table.find(key_of(typed(np.full(2, 5.0)))) is None
    table.clear()
    assert (len(table), table.is_full) == (0, False)
