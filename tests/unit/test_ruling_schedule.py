"""Of schedules within each other the one that gives the wrong rates, and the number that it is built with."""

from __future__ import annotations

import pytest
from tests.unit.test_provenance import line_of, record

from paralign.locate.provenance import tracing_back
from paralign.locate.provenance.settings.ruling_schedule import of_name, of_number, of_ruling
from paralign.worker.provenance.composed_schedules import last_rates, ruling

__all__ = ["record"]

#: a decay after a ramp, as libraries build them; what stands for their classes is none of the user's
REFERENCE = """
    import argparse
    def run():
        total, warmup = 40, 8
        ramp = argparse.Namespace(kind="ramp", total_iters=warmup)
        decay = argparse.Namespace(kind="decay", total_iters=total - warmup, power=2.0)
        return argparse.Namespace(kind="sequence", parts=[ramp, decay])
"""

CANDIDATE = """
    import argparse
    def run():
        steps = 40 - 8  # STEPS
        decay = argparse.Namespace(kind="decay", decay_steps=steps, power=2.0)  # DECAY
        return argparse.Namespace(kind="warmup", inner=decay, warmup_steps=8)
"""


def _stepped(first):
    """Both sides' rates, which differ from a step on; those after the ramp are the decay's."""

    def drive(recorder, schedule, roots):
        inner = schedule.parts[1] if schedule.kind == "sequence" else schedule.inner
        roots |= {"model": -1, "scheduler": recorder.made_by(schedule), "step:0": len(recorder.events) - 1}
        for step in range(8, 12):
            roots[f"ruling:{step}"] = recorder.made_by(inner)
        wrong = 0.5 if schedule.kind == "warmup" else 0.0
        return [[0.1 + step + (wrong if step >= first else 0.0)] for step in range(12)]

    return drive


def sides_of(record, candidate, first=8):
    return tracing_back.Sides(record(REFERENCE, _stepped(first)), record(candidate, _stepped(first)))


def line(found):
    return None if found is None else found.expression.line


def test_a_number_that_is_right_elsewhere_is_named_where_it_is_made(record):
    wrong = CANDIDATE.replace("40 - 8", "5 * 8")
    assert line(of_number(sides_of(record, wrong))) == line_of(CANDIDATE, "STEPS")


def test_a_number_of_another_name_is_told_by_that_of_the_reference(record):
    wrong = CANDIDATE.replace("power=2.0", "power=1.0")
    sides = sides_of(record, wrong)
    found = of_name(sides)
    assert line(found) == line_of(CANDIDATE, "DECAY")
    assert found.reference.scalar == 2.0


def test_the_schedule_itself_where_no_number_is_alone(record):
    wrong = CANDIDATE.replace("decay_steps=steps", "decay_steps=[steps, 17]")
    sides = sides_of(record, wrong)
    assert of_name(sides) is None
    assert of_number(sides) is None
    assert line(of_ruling(sides)) == line_of(CANDIDATE, "DECAY")


def test_the_outer_schedule_is_left_to_others(record):
    assert of_ruling(sides_of(record, CANDIDATE, first=3)) is None


@pytest.mark.parametrize("search", [of_name, of_number, of_ruling])
def test_right_rates_name_nothing(record, search):
    assert search(sides_of(record, CANDIDATE, first=99)) is None


class _Schedule:
    """What a framework's schedule looks like from outside."""

    def __init__(self, rate, **held):
        self.last_lr = rate
        self.__dict__.update(held)

    def step(self):
        """Advance."""


class _Listed(_Schedule):
    """One that keeps its rates in a list, as PyTorch's do."""

    def __init__(self, rates, **held):
        super().__init__(None, **held)
        del self.last_lr
        self._last_lr = rates


def test_the_innermost_schedule_with_the_rate_rules():
    decay = _Schedule(0.02)
    warmup = _Schedule(0.02, after=decay)
    assert ruling(warmup, [0.02]) is decay
    assert ruling(warmup, [0.03]) is None
    assert ruling(decay, [0.02]) is None


def test_schedules_in_lists_and_in_circles():
    ramp, decay = _Listed([0.01, 0.1]), _Listed([0.02, 0.2])
    whole = _Listed([0.02, 0.2], parts=[ramp, decay])
    decay.whole = whole
    assert ruling(whole, [0.02, 0.2]) is decay
    assert last_rates(whole) == [0.02, 0.2]
    assert last_rates(object()) == []
    assert ruling(None, [0.1]) is None
