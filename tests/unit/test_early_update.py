"""An update that comes before what should have changed its gradients, or after averages that should have followed."""

from __future__ import annotations

import pytest
from tests.unit.test_provenance import line_of, record

from paralign.locate.provenance.programs.own_steps import early_update, late_update, other_clipping
from paralign.locate.provenance.search.blamed import Order

__all__ = ["record"]

#: an optimizer and a library's clipping stand in for the frameworks'
COMMON = """
    import copy
    import types
    def run():
        optimizer, library = types.SimpleNamespace(step=int), types.SimpleNamespace(clip_grad_norm_=max)
        gradient = types.SimpleNamespace(mul_=float, zero_=float, sum=float)
        held = copy.copy(types.SimpleNamespace(grad=gradient))
        loss = types.SimpleNamespace(backward=int, requires_grad_=int)
        loss.requires_grad_()
"""
BEFORE = COMMON + "        norm = library.clip_grad_norm_(3.0, 1.0)\n        optimizer.step()\n        return norm\n"
AFTER = COMMON + "        optimizer.step()  # HERE\n        norm = library.clip_grad_norm_(3.0, 1.0)\n        return norm\n"
WITHOUT = COMMON + "        optimizer.step()\n        return 0\n"
BY_HAND = COMMON + "        optimizer.step()  # HERE\n        norm = held.grad.mul_(0.5)\n        return norm\n"
READING = COMMON + "        optimizer.step()\n        return held.grad.sum()\n"
CLEARING = COMMON + "        optimizer.step()\n        held.grad.zero_()\n        return 0\n"
CLEARED = COMMON + "        held.grad.zero_()\n        loss.backward()\n        optimizer.step()\n        return 0\n"


def steps(record, *programs):
    return [record(text, lambda *_: ()).expressions for text in programs]


@pytest.mark.parametrize(
    ("candidate", "same"),
    [
        (AFTER, True),
        (BY_HAND, False),
        (AFTER.replace("1.0)", "2.0)"), False),
    ],
    ids=["alike", "another change", "another bound"],
)
def test_gradients_that_are_changed_after_the_update(record, candidate, same):
    own, due = steps(record, candidate, BEFORE)
    found = early_update(own, due)
    assert found is not None
    assert found.expression.line == line_of(candidate)
    assert "only after this update" in found.note
    assert (found.order, found.is_same_work) == (Order.AFTER_UPDATE, same)


@pytest.mark.parametrize(
    ("candidate", "reference"),
    [
        (BEFORE, BEFORE),
        (AFTER, AFTER),
        (WITHOUT, BEFORE),
        (AFTER, WITHOUT),
        (BEFORE, AFTER),
        (READING, BEFORE),
        (CLEARING, BEFORE),
        (CLEARING, CLEARED),
    ],
)
def test_other_orders_are_left_to_others(record, candidate, reference):
    assert early_update(*steps(record, candidate, reference)) is None


#: arrays stand in for parameters and their average
AVERAGING = """
    import functools
    import types
    import numpy as np
    def run():
        weights, average = np.arange(6.0), np.ones(6)
        update = functools.partial(np.add, weights, 0.25, weights)  # as a library's, of which nothing is seen
        optimizer, scheduler = types.SimpleNamespace(step=update), types.SimpleNamespace(step=int)
        loss = types.SimpleNamespace(backward=int)
        def follow(old, new):
            return old * 0.9 + new * 0.1
        loss.backward()
"""
FOLLOWS = AVERAGING + "        optimizer.step()\n        average = follow(average, weights)\n        return average\n"
LEADS = AVERAGING + "        average = follow(average, weights)  # HERE\n        optimizer.step()\n        return average\n"
INLINE = AVERAGING + "        average = average * 0.9 + weights * 0.1\n        optimizer.step()  # HERE\n        return average\n"
NEITHER = AVERAGING + "        optimizer.step()\n        return average\n"
BOTH = AVERAGING + "        average = follow(average, weights)\n        optimizer.step()\n        return follow(average, weights)\n"


SCHEDULED = LEADS.replace("return average", "scheduler.step()\n        return average")

#: what the update does not matter to, in another order
MEASURED = AVERAGING + "        share = np.square(average)\n        optimizer.step()\n        return share\n"
MEASURED_AFTER = AVERAGING + "        optimizer.step()\n        share = np.square(average)\n        return share + np.ones(6)\n"


#: another average, and what is none
OTHERWISE = LEADS.replace("0.9 + new * 0.1", "0.5 + new * 0.5")
NO_AVERAGE = AVERAGING + "        average = np.maximum(average, weights)  # HERE\n        optimizer.step()\n        return average\n"


@pytest.mark.parametrize(
    ("candidate", "same"),
    [(LEADS, True), (INLINE, True), (SCHEDULED, True), (OTHERWISE, False), (NO_AVERAGE, False)],
    ids=["alike", "inline", "scheduled", "other numbers", "another operation"],
)
def test_an_average_that_is_taken_before_the_update(record, candidate, same):
    found = late_update(*steps(record, candidate, FOLLOWS))
    assert found is not None
    assert found.expression.line == line_of(candidate)
    assert "the reference computes such after its own" in found.note
    assert (found.order, found.is_same_work) == (Order.BEFORE_UPDATE, same)


@pytest.mark.parametrize(
    ("candidate", "reference"),
    [
        (FOLLOWS, FOLLOWS),
        (LEADS, LEADS),
        (FOLLOWS, LEADS),
        (LEADS, NEITHER),
        (NEITHER, FOLLOWS),
        (BOTH, FOLLOWS),
        (MEASURED, MEASURED_AFTER),
    ],
)
def test_averages_that_are_taken_alike_or_nowhere(record, candidate, reference):
    assert late_update(*steps(record, candidate, reference)) is None


#: the same gradients, clipped by another function of the library's
BOUNDED = """
    import types
    def run():
        optimizer = types.SimpleNamespace(step=int)
        library = types.SimpleNamespace(clip_grad_norm_=max, clip_grad_value_=max)
        loss = types.SimpleNamespace(backward=int)
        loss.backward()
        library.clip_grad_norm_(3.0, 1.0)  # HERE
        optimizer.step()
        return 0
"""
BY_VALUE = BOUNDED.replace("library.clip_grad_norm_", "library.clip_grad_value_")


@pytest.mark.parametrize("exchanged", [False, True])
def test_gradients_that_are_clipped_by_another_function(record, exchanged):
    own, due = steps(record, *((BY_VALUE, BOUNDED) if exchanged else (BOUNDED, BY_VALUE)))
    found = other_clipping(own, due)
    assert found is not None
    assert (found.expression.line, found.order) == (line_of(BOUNDED), None)
    assert "bounds each number of gradients" in found.note


@pytest.mark.parametrize(
    ("candidate", "reference"),
    [
        (BOUNDED, BOUNDED),
        (BY_VALUE, BY_VALUE),
        (BOUNDED, BY_VALUE.replace("clip_grad_value_", "clip_grad_sum_")),
        (BOUNDED, BY_VALUE.replace("library.clip_grad_value_(3.0, 1.0)", "int()")),
        (BOUNDED, BY_VALUE.replace("        optimizer.step()", "        library.clip_grad_value_(3.0, 1.0)\n        optimizer.step()")),
    ],
    ids=["alike", "alike by value", "an unknown function", "none there", "twice there"],
)
def test_clipping_that_tells_nothing(record, candidate, reference):
    assert other_clipping(*steps(record, candidate, reference)) is None
