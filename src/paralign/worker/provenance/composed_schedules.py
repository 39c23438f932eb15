"""Schedules that are made of others: which of them gives the rates of a step.

Paddle's ``LinearWarmup`` keeps the schedule that comes after it as an attribute, PyTorch's ``SequentialLR`` keeps a list.
"""

from __future__ import annotations

from typing import Any, Iterator, List, Optional, Sequence, Set

from paralign.worker.instrumentation.value_marks import attribute
from paralign.worker.optimization.optimizers import steps
from paralign.worker.optimization.several import members_of

#: schedules within each other that are looked at, at most
_DEEP = 8


def ruling(schedule: Any, rates: Sequence[float]) -> Optional[Any]:
    """The innermost schedule within another that has made a step's rates.

    None where that is the outer one.

    Args:
        schedule: that is advanced, or several.
        rates: of the optimizer's groups.
    """
    found = None
    for inner in _within(schedule, {id(member) for member in members_of(schedule)}, _DEEP):
        made = last_rates(inner)
        if made and all(rate in rates for rate in made):
            found = inner
    return found


def last_rates(schedule: Any) -> List[float]:
    """What a schedule has computed last; nothing where it does not tell."""
    told = attribute(schedule, "last_lr", attribute(schedule, "_last_lr"))
    listed = told if isinstance(told, (list, tuple)) else [told]
    return [float(rate) for rate in listed if isinstance(rate, (int, float))]


def _within(schedule: Any, seen: Set[int], deep: int) -> Iterator[Any]:
    """The schedules that a schedule holds, the outer ones first."""
    for member in members_of(schedule):
        for value in list(getattr(member, "__dict__", {}).values()) if deep else ():
            for each in value if isinstance(value, (list, tuple)) else [value]:
                if _is_schedule(each) and id(each) not in seen:
                    seen.add(id(each))
                    yield each
                    yield from _within(each, seen, deep - 1)


def _is_schedule(value: Any) -> bool:
    """Whether something can be advanced and tells a rate: an optimizer has none to tell."""
    return steps(value) and bool(last_rates(value))
