"""Element types that are tried in place of those that a function refuses: few runs, and the least that helps."""

from __future__ import annotations

import pytest

from paralign.stages.common import own_failures
from paralign.worker.protocol import OwnBatch, OwnBatchTaken, Raised

ORDER = OwnBatch("train", "loss")
RAISED = Raised("ValueError", "no such type", "", [])


@pytest.fixture
def tried(monkeypatch):
    """What is found of a batch's types with a function that runs under a condition, and the casts that were run."""

    def run(types, runs):
        casts = []

        def taken(_recorder, order):
            casts.append(order.types)
            return OwnBatchTaken("loss", types=types, raised=None if runs(order.types) else RAISED)

        monkeypatch.setattr(own_failures, "_taken", taken)
        return own_failures._runs_with(None, ORDER, OwnBatchTaken("loss", types=types, raised=RAISED)), casts

    return run


MANY = {f"1.{n}.{part}": kind for n in range(32) for part, kind in (("boxes", "float64"), ("labels", "int64"), ("masks", "uint8"))}


def test_an_error_that_no_type_can_mend_costs_few_runs(tried):
    found, casts = tried(MANY, lambda _: False)
    assert found is None
    assert len(casts) == own_failures.RUNS
    assert len(casts[0]) == 32  # all leaves of a type at once


def test_all_leaves_of_a_type_are_named_where_one_alone_does_not_help(tried):
    found, casts = tried(MANY, lambda types: sum(kind == "int32" for kind in types.values()) == 32)
    assert found is not None
    assert (len(found[0]), found[1]) == (32, "int32")
    assert len(casts) <= own_failures.RUNS


def test_one_leaf_is_named_where_it_alone_helps(tried):
    types = {"0": "float32", "1": "int32", "2": "int32"}
    assert tried(types, lambda types: types.get("1") == "int64")[0] == (("1",), "int64")
    assert tried(types, lambda types: types == {"2": "int64"})[0] == (("2",), "int64")  # all at once breaks another
    found, casts = tried({"0": "float32", "1": "int32"}, lambda types: types == {"1": "int64"})
    assert (found, casts) == ((("1",), "int64"), [{"1": "int64"}])


def test_no_run_begins_after_the_time_is_up(tried, monkeypatch):
    monkeypatch.setattr(own_failures, "SECONDS", -1.0)
    assert tried(MANY, lambda _: True) == (None, [])
