"""How a schedule of learning rates is advanced.

With nothing, with the number of the step, or with a metric.
"""

from __future__ import annotations

import inspect
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, List, Optional, Union

import numpy as np

from paralign.worker.optimization.several import Several, members_of

if TYPE_CHECKING:
    from typing import Sequence

#: names of arguments of ``step`` that count epochs or updates (timm's schedulers take one)
_COUNTS = ("epoch", "epochs", "num_updates", "num_update", "step", "iteration", "t")

#: a metric that nobody gave: improvements that halve from a tenth on, so that thresholds show, then a plateau longer than usual patiences
_IMPROVEMENTS, _PLATEAU = 12, 25


def made_up(count: int) -> List[float]:
    """A metric for schedules that wait for one.

    It falls below its least, stands still, rises above its greatest, stands still, and again.

    >>> values = made_up(100)
    >>> values[0] > values[11] == values[30] < values[60]
    True
    """
    values: List[float] = []
    least = greatest = 1.0
    down = True
    while len(values) < count:
        value = least if down else greatest
        for halving in range(_IMPROVEMENTS):
            value *= 1.0 + (-0.1 if down else 0.1) * 0.5**halving
            values.append(value)
        least, greatest = min(least, value), max(greatest, value)
        values += [value] * _PLATEAU
        down = not down
    return values[:count]


def waits_for(step: Callable[..., Any]) -> List[str]:
    """The arguments that ``step`` of a schedule cannot do without."""
    try:
        given = inspect.signature(step).parameters.values()
    except (TypeError, ValueError):  # a builtin, or a callable that hides its signature
        return []
    return [p.name for p in given if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def wants_metric(schedule: Any) -> bool:
    """Whether a schedule can only be advanced with a metric, as ReduceLROnPlateau.

    Of several one is enough.
    """
    if isinstance(schedule, Several):
        return any(wants_metric(member) for member in schedule.members)
    step = getattr(schedule, "step", None)
    if not callable(step):
        return False
    return any(name not in _COUNTS for name in waits_for(step))


def advancing(
    schedule: Any, measures: "Optional[Union[Sequence[float], np.ndarray[Any, Any]]]", *, by_update: bool
) -> Callable[[int], Any]:
    """What advances a schedule: called with the number of steps done before.

    Args:
        schedule: with ``step``; where it is advanced after every update and has ``step_update`` (timm), with that.
        measures: a metric for each step; the last one is repeated.
        by_update: whether it is advanced after every update, else after every epoch.
    """
    if isinstance(schedule, Several):
        return partial(_each, [advancing(member, measures, by_update=by_update) for member in members_of(schedule)])
    step = schedule.step
    if by_update and callable(getattr(schedule, "step_update", None)):
        step = schedule.step_update
    names = waits_for(step)
    if not names:
        return partial(_plain, step)
    values = np.asarray(measures if measures is not None and len(measures) else made_up(1000), np.float64)

    def advance(number: int) -> Any:
        metric = float(values[min(number, len(values) - 1)])
        return step(*(number + 1 if name in _COUNTS else metric for name in names))

    return advance


def _each(steps: List[Callable[[int], Any]], number: int) -> None:
    for step in steps:
        step(number)


def _plain(step: Callable[[], Any], number: int) -> Any:  # noqa: ARG001 - as those that need the number
    return step()
