"""A region made smaller: values on the way whose counterparts mend its result.

Two programs that write a formula in other steps may still share a value on the way: a norm that both divide by, the scores that both
hand to a softmax. Where that value is wrong, its size and what is done with it alone say so. A run with the reference's value in its place
shows whether it is true.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from paralign.adapters._kinds import MOVES
from paralign.locate.reaching import reached
from paralign.locate.runs.counterparts import is_telling
from paralign.locate.runs.traverse import CONTEXT, computing_users, makers, taken_by, way_to
from paralign.locate.suspects.propose import Reason, Trial, fits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paralign.locate.runs.dataflow import Operation, Value
    from paralign.locate.runs.judgement import Judgement

#: values that are tried in a region: each costs a run
TRIED = 4


def proposals(judgement: Judgement, trial: Trial) -> list[Trial]:
    """What may be due in place of values inside a region, least of it left first.

    Args:
        judgement: the candidate's run, without the reference's value at the region's end.
        trial: which showed that the region is at fault.
    """
    return list(islice(_proposals(judgement, trial), TRIED))


def _proposals(judgement: Judgement, trial: Trial) -> Iterator[Trial]:
    due_there = [o for o in way_to(judgement, trial.due, len(trial.region) + CONTEXT) if not o.written]
    theirs = [v for v in dict.fromkeys(taken_by(due_there)) if v is not trial.due and v.maker is not None and judgement.lacking(v)]
    for operation in sorted(trial.region, key=lambda o: o.order):
        if operation.kind in MOVES:
            continue
        for value in operation.outputs:
            if value is trial.value or value not in judgement.wrong or not is_telling(value):
                continue
            for due in theirs:
                if _axes(value) == _axes(due) and _shares_use(value, due) and fits(value, due):
                    yield Trial(trial.suspect, value, due, Reason.MEETING, due.maker)


def _axes(value: Value) -> list[int]:
    """The lengths of axes, in no order, without those of length one."""
    return sorted(n for n in value.shape if n != 1)


def _shares_use(value: Value, due: Value) -> bool:
    """Whether both sides do something of one kind with two values."""
    own, theirs = ({user.kind for user in computing_users(each)} - MOVES for each in (value, due))
    return not own.isdisjoint(theirs)


def left_of(outer: Trial, inner: Trial) -> list[Operation]:
    """The operations of a region that are still to blame.

    Their results reach its end only through the inner value. With the reference's value there the end is right, so that what leads to it in
    another way is right too.
    """
    maker = inner.value.maker
    end = outer.value.maker
    if maker is None or end is None:
        return []
    inside = set(outer.region)
    around = set(reached([end], lambda o: [] if o is maker else [m for m in makers(o.inputs) if m in inside])) - {maker}
    behind = set(reached([maker], lambda o: [m for m in makers(o.inputs) if m in inside]))
    return sorted(behind - around, key=lambda o: o.order)
