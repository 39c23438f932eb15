"""Which of several operations on the way to a wrong value is at fault: both programs' ways to it, held against each other.

The two ways begin at values that both sides have and end at the value that was put in place of the wrong one. What a way does is a
list of words: ``scale`` (times or by a number), ``shift`` (a number added), ``add``, ``multiply``, ``divide``, or the operation's
kind. Words without a counterpart tell what is missing, or too much.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from paralign.adapters._kinds import MOVES
from paralign.capture import digest as digests
from paralign.locate.matching import is_telling
from paralign.locate.paths import way_to
from paralign.locate.search import region
from paralign.locate.written import alias_line

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from paralign.locate.graph import Operation, Value
    from paralign.locate.judgement import Judgement
    from paralign.locate.replay import Guilt
    from paralign.locate.search import Trial

#: operations of one way that are looked at
MOST = 64

#: operations between a value that both sides have and the first wrong one
BEFORE = 8

#: numbers and shares of digests that are no further apart are the same
SAME = 1e-6

#: the power that is a product of two
SQUARE = 2

#: a number as a factor: implementations spread them differently
SCALE = "scale"

#: words of steps that give a multiple of their result where they are given a multiple of a value
HOMOGENEOUS = frozenset({SCALE, "multiply", "divide", "sqrt", "rsqrt", "abs"})


def line_of(guilt: Guilt) -> str | None:
    """The candidate's line at which its way to a wrong value leaves the reference's; None where the ways do not tell."""
    trial, judgement = guilt.trial, guilt.judgement
    constant = _constant_line(trial.value.maker, trial.due.maker)
    if constant is not None:
        return constant
    if not judgement.lacking(trial.due):  # the candidate has what is due: it takes the wrong value, or does a step too many
        return None
    theirs = _way(judgement, trial.due)
    ours = [o for o in region(judgement, trial.suspect, trial.value) if _computes(o)]
    if not theirs or not ours:
        return None
    missing, extra = _without_counterpart(theirs, ours), _without_counterpart(ours, theirs)
    if missing and trial.due.size > 1:  # a single number may come from outside of what is watched
        extra = [o for o in extra if any(v.size > 1 for v in o.outputs)]
    if extra:
        return extra[0].source
    if missing:
        missing = _without_counterpart(theirs, _from_shared(judgement, theirs, ours)) or missing
        return _before(judgement, missing[0], theirs, ours)
    plain = [[o for o in way if word(o) != SCALE] for way in (ours, theirs)]
    turned = next((mine.source for mine, other in zip(*plain, strict=True) if word(mine) != word(other)), None)
    return turned or _scaled(judgement, trial, *plain) or _scales(judgement, theirs, ours)


def _scales(judgement: Judgement, theirs: Sequence[Operation], ours: Sequence[Operation]) -> str | None:
    """Where one way multiplies by a number more often than the other, or at another place."""
    missing, extra = _without_counterpart(theirs, ours, scales=True), _without_counterpart(ours, theirs, scales=True)
    if extra:
        return extra[0].source
    if missing:
        return _before(judgement, missing[0], theirs, ours)
    return next((mine.source for mine, other in zip(ours, theirs, strict=True) if word(mine) != word(other)), None)


def _scaled(judgement: Judgement, trial: Trial, ours: Sequence[Operation], theirs: Sequence[Operation]) -> str | None:
    """Where a value is a multiple of what the reference has: by the first step that does not hand a factor on.

    Programs spread factors over their steps as they like; what enters such a step, and what comes out in the end, must be equal.
    """
    for mine, other in zip(ours, theirs, strict=True):
        for value in mine.inputs if word(mine) not in HOMOGENEOUS else ():
            due = next((v for v in other.inputs if value in judgement.wrong and _is_multiple(value, v)), None)
            if due is not None:
                return _factor(judgement, value, due, mine)
    return _factor(judgement, trial.value, trial.due, None) if _is_multiple(trial.value, trial.due) else None


def _is_multiple(value: Value, due: Value) -> bool:
    """Whether a value is another multiple of a direction than is due."""
    if value.digest is None or due.digest is None or value.size != due.size or not (is_telling(value) and is_telling(due)):
        return False
    one, other = digests.figures(value.digest), digests.figures(due.digest)
    return _alike(_shape_of(value.digest), _shape_of(due.digest)) and abs(one.rms - other.rms) > SAME * max(one.rms, other.rms)


def _factor(judgement: Judgement, value: Value, due: Value, user: Operation | None) -> str | None:
    """The line of the number that makes a value another multiple than is due, or where one is missing."""
    own, others = (
        _steps_to(value, judgement.wrong),
        _steps_to(due, {v for v in judgement.reference.values.values() if judgement.lacking(v)}),
    )
    for operation in [*own, *([user] if user is not None else [])]:
        handed = alias_line(operation.source)
        if handed is not None:
            return handed
    scales = [o for o in own if word(o) == SCALE]
    strange = [o for o in scales if not _has_number(o, others)]
    found = next(iter(strange or scales or own), user)
    return found.source if found is not None else None


def _steps_to(value: Value, followed: Container[Value]) -> list[Operation]:
    """The steps on the way to a value that hand factors on, as far as their results are among some values."""
    found: list[Operation] = []
    todo = [value]
    while todo and len(found) < MOST:
        item = todo.pop()
        maker = item.maker
        if maker is not None and item in followed and maker not in found and (word(maker) in HOMOGENEOUS or not _computes(maker)):
            found.append(maker)
            todo += maker.inputs
    return sorted((o for o in found if _computes(o)), key=lambda o: o.order)


def word(operation: Operation) -> str:
    """What an operation does, in a word that implementations share."""
    size = max((v.size for v in operation.outputs), default=1)
    tensors = sum(v.size > 1 or size == 1 for v in operation.inputs)
    if operation.kind in ("multiply", "divide"):
        return operation.kind if tensors > 1 else SCALE
    if operation.kind in ("add", "subtract"):
        return "add" if tensors > 1 else "shift"
    squares = operation.op == "square" or SQUARE in operation.arguments.values()
    return "multiply" if operation.kind == "power" and squares else operation.kind


def _computes(operation: Operation) -> bool:
    return operation.kind not in MOVES and operation.kind not in ("fill", "negative")


def _way(judgement: Judgement, due: Value) -> list[Operation]:
    """The reference's operations that compute on the way to a value, in order."""
    return sorted((o for o in way_to(judgement, due, MOST) if _computes(o)), key=lambda o: o.order)


def _from_shared(judgement: Judgement, theirs: Sequence[Operation], ours: list[Operation]) -> list[Operation]:
    """The candidate's way, begun where the reference's begins: what comes between may happen to be right."""
    begins = {v for o in theirs for v in o.inputs if is_telling(v) and not judgement.lacking(v)}
    shared = {id(v) for begin in begins for v in judgement.backwards.equals(begin)}
    found = list(ours)
    for value in {v for o in ours for v in o.inputs if judgement.is_right(v)}:
        path: list[Operation] = []
        while id(value) not in shared and value.maker is not None and len(path) <= BEFORE:
            path.append(value.maker)
            telling = [v for v in value.maker.inputs if is_telling(v) and v.size == value.size]
            if len(telling) != 1:
                break
            value = telling[0]  # noqa: PLW2901 - one step back
        if id(value) in shared and len(path) <= BEFORE:
            found += [o for o in path if o not in found and _computes(o)]
    return sorted(found, key=lambda o: o.order)


def _without_counterpart(these: Sequence[Operation], those: Sequence[Operation], *, scales: bool = False) -> list[Operation]:
    """The operations whose words the other way has fewer of; numbers decide which of them, where it has some."""
    left = Counter(word(o) for o in those)
    surplus = Counter(word(o) for o in these) - left
    found = []
    for operation in sorted(these, key=lambda o: _has_number(o, those)):
        name = word(operation)
        if surplus[name] > 0 and (name == SCALE) == scales:
            surplus[name] -= 1
            found.append(operation)
    return sorted(found, key=lambda o: o.order)


def _has_number(operation: Operation, others: Iterable[Operation]) -> bool:
    """Whether an operation of the other way has the same number."""
    own = operation.numbers
    return any(abs(a - b) <= SAME * max(abs(a), abs(b)) for o in others if word(o) == word(operation) for a in own for b in o.numbers)


def _shape_of(digest: str) -> tuple[float, ...]:
    """The numbers of a digest that stay the same when the values are multiplied by a number, whatever its sign."""
    known = digests.figures(digest)
    sign = math.copysign(1.0, known.low + known.high)
    ends = (known.low, known.high) if sign > 0 else (-known.high, -known.low)
    return (sign * known.mean, known.absolute, known.fourth, *ends)


def _alike(one: Sequence[float], other: Sequence[float]) -> bool:
    return all(abs(a - b) <= SAME * max(1.0, abs(a), abs(b)) for a, b in zip(one, other, strict=True))


def _constant_line(maker: Operation | None, other: Operation | None) -> str | None:
    """The line that made a constant which an operation takes where the reference's takes another."""
    if maker is None or other is None or word(maker) != word(other):
        return None
    due = {v.digest for v in other.inputs}
    made = [v for v in maker.inputs if (v.digest or "").startswith("c1:") and v.digest not in due and v.maker is not None]
    known = any((v.digest or "").startswith("c1:") for v in other.inputs)
    lines = [v.maker.source for v in made if v.maker is not None and v.maker.kind == "fill"]
    return lines[0] if known and len(lines) == 1 else None


def _before(judgement: Judgement, missing: Operation, theirs: Sequence[Operation], ours: Sequence[Operation]) -> str | None:
    """The line where a step is missing: where a name is only handed on, where its input was made, or where what follows is done."""
    follows = [o for o in theirs if any(v in missing.outputs for v in o.inputs)]
    consumer = next((o for o in ours for other in follows if word(o) == word(other)), ours[0])
    handed = alias_line(consumer.source)
    if handed is not None:
        return handed
    before = [v for v in missing.inputs if is_telling(v) and v.maker is not None and not judgement.lacking(v)]
    if not any(v.maker is not None and v.maker.source == missing.source for v in before) or any(
        o.source == missing.source for o in follows
    ):
        return consumer.source
    taken = [v for begin in before for v in judgement.backwards.equals(begin)]
    makers = [v.maker for v in taken if v.maker is not None and v.maker.stack and v.order < consumer.order and _leads(v, consumer)]
    return makers[-1].source if makers else consumer.source


def _leads(value: Value, operation: Operation) -> bool:
    """Whether an operation computes with a value, a few steps further."""
    todo, seen = [(value, 0)], set()
    while todo:
        item, depth = todo.pop()
        for user in item.users:
            if user is operation:
                return True
            if user not in seen and depth < BEFORE:
                seen.add(user)
                todo += [(v, depth + 1) for v in user.outputs]
    return False
