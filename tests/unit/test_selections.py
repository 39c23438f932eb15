"""Arrays that hold other rows than the reference's."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from paralign.locate.provenance.search.selections import MANY, Selections, arrays_of
from paralign.worker.instrumentation.value_marks import order_of


class Made(SimpleNamespace):
    __hash__ = object.__hash__
    __eq__ = object.__eq__


def array(numbers, operands=()):
    order = order_of(numbers)
    return Made(
        numbers=np.unique(numbers),
        mark=["a", [len(numbers)], order],
        size=len(numbers),
        rms=order[0],
        kind="operation",
        is_copy=False,
        operands=list(operands),
    )


def test_a_cut_with_a_row_more_is_told_and_a_long_list_is_looked_at_in_part():
    series = np.sin(np.arange(9000.0))
    table = array(series)
    reference = [table, *[array(series[start : start + 20]) for start in range(0, 400, 10)]]
    selections = Selections(reference)
    cut = array(series[:21], [table])
    assert selections.is_cut_wrongly(cut)
    assert not selections.is_cut_wrongly(array(series[:20], [table]))
    held = Made(numbers=None, mark=["l", []], kind="display", is_copy=False, operands=[array(series[n : n + 9]) for n in range(1000)])
    assert len(arrays_of(Made(numbers=None, mark=["a"], kind="call", is_copy=False, operands=[held]))) == MANY


def test_a_row_of_the_same_numbers_in_another_order_is_another_one():
    series = np.sin(np.arange(60.0))
    ends = np.concatenate([series[:8][::-1], series, series[-8:][::-1]])
    selections = Selections([array(series), array(ends)])
    assert not selections.is_strange(array(ends))
    assert selections.is_strange(array(np.concatenate([series, series[:8], series[-8:]]))), "as often, at other places"
    assert selections.is_strange(array(np.concatenate([series, series[:16]]))), "others twice"
