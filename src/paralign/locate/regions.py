"""Which of several operations that stand for others of the reference deserves to be looked at first."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from paralign.adapters._kinds import MOVES
from paralign.locate.edges import factor_of
from paralign.locate.matching import is_telling
from paralign.locate.search import rank

if TYPE_CHECKING:
    from paralign.locate.graph import Operation
    from paralign.locate.judgement import Judgement
    from paralign.locate.search import Trial


def likeliest(judgement: Judgement, trial: Trial) -> Operation | None:
    """The operation of a region that is the likeliest by what the reference does with the same values; None where nothing tells.

    The first that the reference does too, with another result. In a loss of which all gradients are the reference's times a number: the
    last, as what comes after has no part in the gradients' proportions.
    """
    suspect = trial.suspect
    if suspect in trial.region and rank(judgement, suspect) == 0:
        return suspect
    if judgement.candidate.loss is not None and trial.due is judgement.reference.loss and _is_scaled(judgement, trial.region):
        computing = [o for o in trial.region if o.kind not in MOVES]
        return computing[-1] if computing else None
    return None


def busiest(judgement: Judgement, trial: Trial) -> Operation | None:
    """The first operation of the line of a loss's formula where most of it is computed; None where the region does not end in a loss.

    Of a formula in place of one operation of the reference nothing is known but that it is wrong somewhere.
    """
    if trial.due is not judgement.reference.loss or trial.due is None:
        return None
    computing = [o for o in trial.region if o.kind not in MOVES and o.source is not None]
    counts = Counter(o.source for o in computing)
    return max(computing, key=lambda o: (counts[o.source], -o.order), default=None)


def done_before(judgement: Judgement, maker: Operation, twin: Operation) -> Operation | None:
    """Where a step is one too many, but the reference has just done the very same: the step before that stands for it; None elsewhere.

    A factor that is there twice may be taken off in either place, and the one that stands where the reference's stands is right.
    """
    if twin.kind != maker.kind or twin.numbers != maker.numbers or not maker.numbers:
        return None
    todo, seen = list(maker.inputs), set(maker.inputs)
    while todo and len(seen) < FOLLOWED:
        operation = todo.pop(0).maker
        if operation is None:
            continue
        if operation.kind == maker.kind and operation.numbers == maker.numbers and any(v in judgement.wrong for v in operation.outputs):
            return operation
        fresh = [v for v in operation.inputs if v not in seen]
        seen.update(fresh)
        todo += fresh
    return None


def comes_first(maker: Operation, twin: Operation) -> bool:
    """Whether the reference takes steps of the same kind with other numbers before the one that an operation stands for."""
    wanted, step = maker.numbers, twin
    if twin.kind != maker.kind or not wanted or twin.numbers == wanted:
        return False
    for _ in range(STEPS):
        following = next((u for v in step.outputs for u in v.users if u.kind == maker.kind), None)
        if following is None or not following.numbers:
            return False
        if following.numbers == wanted:
            return True
        step = following
    return False


def beside(judgement: Judgement, missing: Operation) -> str | None:
    """The candidate's line that does what else the reference does in the line of a missing operation; None where that is not one line."""
    depth, found, inner = len(missing.stack), set(), set()
    for other in judgement.reference.operations:
        if other is missing or other.kind in MOVES or other.stack[-depth:] != missing.stack:
            continue
        made = [v for v in other.outputs if is_telling(v)]
        makers = [m.maker for v in made for m in judgement.backwards.equals(v) if m.maker is not None and m.maker.kind == other.kind]
        found |= {maker.stack[-depth] for maker in makers if len(maker.stack) >= depth}
        inner |= {(maker.source, maker.number) for maker in makers} if other.stack == missing.stack else set()
    within = {line for line, _ in inner if line is not None}
    if len(inner) > 1 and len(within) == 1:  # several steps of that line, deeper in calls perhaps
        return within.pop()
    return found.pop() if len(found) == 1 else None


def _is_scaled(judgement: Judgement, region: list[Operation]) -> bool:
    """Whether the gradients of all that a region takes are the reference's times one number other than one."""
    inside = {v for o in region for v in o.outputs}
    taken = {v for o in region for v in o.inputs if v not in inside and judgement.is_right(v) and is_telling(v)}
    factors = []
    for value in taken:
        partners = [p for p in judgement.partners(value) if p.gradient is not None]
        if value.gradient is not None and partners:
            factors.append(next((f for p in partners if (f := factor_of(p, value)) is not None), None))
    known = [f for f in factors if f is not None]
    return bool(known) and len(known) == len(factors) and max(known) - min(known) <= SAME * abs(known[0]) and abs(known[0] - 1) > SAME


#: steps of one kind that are followed
STEPS = 4

#: values before a step that are searched for another one like it
FOLLOWED = 48

#: numbers that differ by less than this share are the same
SAME = 1e-5
