"""Which of several operations on the way to a wrong value is at fault.

Both programs' ways to it are held against each other.

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
from paralign.locate.runs.counterparts import is_telling
from paralign.locate.runs.traverse import way_to
from paralign.locate.source.bindings import number_line, only_keeps, unkept_line
from paralign.locate.source.statements import alias_line, following
from paralign.locate.suspects.propose import Reason, Trial, region
from paralign.locate.types import Guilt
from paralign.model import SourceLine

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from paralign.locate.runs.dataflow import Operation, Value
    from paralign.locate.runs.judgement import Judgement

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


def settled(judgement: Judgement) -> Judgement:
    """A judgement in which no wrong output counts as right by a value elsewhere.

    Where a factor vanishes, a parameter stays what it was, or becomes what only was to be added to it. What is then wrong on its way is
    what comes of it, and constants that were computed: zero times something is the same, whatever that was.
    """
    todo = [second for _, second in judgement.misplaced()]
    while todo:
        value = todo.pop()
        maker = value.maker
        if maker is None or maker.kind == "fill":
            continue
        judgement.wrong.add(value)
        right = [v for v in maker.inputs if judgement.is_right(v)]
        todo += [v for v in right if v.size > 1 and _is_hollow(v)]
        if not _computes(maker):
            todo += right
    return judgement


def _is_hollow(value: Value) -> bool:
    """Whether a value is one number, and was computed."""
    return value.maker is not None and value.maker.kind != "fill" and value.is_constant


def unwritten(judgement: Judgement) -> Guilt | None:
    """The last value made on the way to a parameter that only the reference has written."""
    for first, second in judgement.wrong_outputs():
        if second.maker is not None or first.maker is None:
            continue
        own = _made(judgement.backwards.equals(first))
        if not own:
            own = [each for _, found in _begins(judgement, _way(judgement, first)) for each in found]
        last = max(own, key=lambda v: v.order, default=None)
        if last is not None and last.maker is not None:
            trial = Trial(last.maker, last, first, Reason.OUTPUT, first.maker, [last.maker])
            return Guilt(trial, judgement, confirmed=False, error=1.0)
    return None


def line_of(guilt: Guilt) -> str | None:
    """The candidate's line at which its way to a wrong value leaves the reference's.

    None where the ways do not tell.
    """
    trial, judgement = guilt.trial, guilt.judgement
    constant = _constant_line(trial.value.maker, trial.due.maker)
    if constant is not None:
        return constant
    if not judgement.lacking(trial.due):  # the candidate has what is due: it takes the wrong value, or does a step too many
        return None
    theirs = _way(judgement, trial.due)
    way = region(judgement, trial.suspect, trial.value)
    ours = [o for o in way if _computes(o)] or way[-1:]
    if not theirs or not ours:
        return None
    for rule in (_unkept, _unused):
        line = rule(judgement, theirs, ours)
        if line:
            return line
    return _parting(judgement, trial, theirs, ours)


def _parting(judgement: Judgement, trial: Trial, theirs: list[Operation], ours: list[Operation]) -> str | None:
    """Where one way does what the other does not, or does it with another number."""
    missing, extra = _without_counterpart(theirs, ours), _without_counterpart(ours, theirs)
    if missing and trial.due.size > 1:  # a single number may come from outside of what is watched
        extra = [o for o in extra if any(v.size > 1 for v in o.outputs)]
    if extra:
        return extra[0].source
    if missing:
        missing = _without_counterpart(theirs, _from_shared(judgement, theirs, ours)) or missing
        return _before(judgement, missing[0], theirs, ours)
    plain = [[o for o in way if word(o) != SCALE] for way in (ours, theirs)]
    turned = _first_other_word(*plain) or _scaled(judgement, trial, *plain)
    return turned or _scales(judgement, theirs, ours) or _only(ours)


def _first_other_word(ours: Sequence[Operation], theirs: Sequence[Operation]) -> str | None:
    """The line of the first operation whose counterpart on the other way does something else."""
    for mine, other in zip(ours, theirs, strict=True):
        if word(mine) != word(other):
            return mine.source
    return None


def _only(ours: Sequence[Operation]) -> str | None:
    """The one line of a way; None where it has several."""
    lines = {o.source or "" for o in ours}
    if len(lines) == 1:
        return lines.pop() or None
    return None


def _begins(judgement: Judgement, theirs: Sequence[Operation]) -> list[tuple[Value, list[Value]]]:
    """What the reference's way begins with, and the candidate's values that are the same."""
    found = dict.fromkeys(v for o in theirs for v in o.inputs if v.maker is not None and _is_shared(judgement, v))
    begins = []
    for value in found:
        own = _made(judgement.backwards.equals(value))
        if own:
            begins.append((value, own))
    return begins


def _is_shared(judgement: Judgement, value: Value) -> bool:
    """Whether a value of the reference's tells something, and the candidate has it too."""
    return is_telling(value) and not judgement.lacking(value)


def _made(values: Iterable[Value]) -> list[Value]:
    """The values that an operation has made."""
    return [value for value in values if value.maker is not None]


def _unkept(judgement: Judgement, theirs: Sequence[Operation], ours: Sequence[Operation]) -> str | None:
    """The line where only the reference goes on with what an earlier step made.

    The candidate has made it too.
    """
    step = ours[0].outputs[0].record.step
    for _, own in _begins(judgement, theirs):
        if not all(v.record.step < step and set(ours).isdisjoint(v.users) for v in own):
            continue
        makers = [v.maker for v in own if v.maker is not None]
        sources = [maker.source for maker in makers if maker.source is not None]
        return unkept_line(ours[0].source, sources, _fill_line(ours[0])) or _last_forgotten(judgement, step)
    return None


def _fill_line(operation: Operation) -> str | None:
    """The line of the first constant that an operation takes."""
    for value in operation.inputs:
        if value.maker is not None and value.maker.kind == "fill":
            return value.maker.source
    return None


def _is_forgotten(own: Sequence[Value], step: int) -> bool:
    """Whether a value was made before a step, which does not take it."""
    if any(value.record.step >= step for value in own):
        return False
    takers = {user.outputs[0].record.step for value in own for user in value.users}
    return step not in takers


def _last_forgotten(judgement: Judgement, step: int) -> str | None:
    """The line of the last value which only the reference keeps for a step."""
    lines: set[SourceLine] = set()
    for value in _kept_for(judgement.reference.operations, step):
        own = judgement.backwards.equals(value)
        if not _is_forgotten(own, step):
            continue
        makers = [v.maker for v in own if v.maker is not None]
        places = [SourceLine.of(maker.source) for maker in makers]
        lines |= {place for place in places if place is not None}
    last = max(lines, key=lambda place: place.line, default=None)
    return None if last is None else str(last)


def _kept_for(operations: Sequence[Operation], step: int) -> set[Value]:
    """Telling values that were made in the step before, and that operations of a step take."""
    done = [o for o in operations if o.outputs[0].record.step == step]
    taken = {v for o in done for v in o.inputs if v.record.step == step - 1}
    return {v for v in taken if v.maker is not None and is_telling(v)}


def _unused(judgement: Judgement, theirs: Sequence[Operation], ours: Sequence[Operation]) -> str | None:
    """The line where the candidate leaves unused what the reference goes on with.

    It was made in the same step.
    """
    step = ours[0].outputs[0].record.step
    for _, own in _begins(judgement, theirs):
        last = own[-1].maker
        if last is None or last.source is None or own[-1].record.step != step:
            continue
        used = any(not set(user.outputs) <= set(own) for v in own for user in v.users)
        if not used and _computes(last):
            return _next_use(judgement, last.source, ours)
    return None


def _next_use(judgement: Judgement, source: str, ours: Sequence[Operation]) -> str | None:
    """The first line after another that is on the way, or does nothing with tensors."""
    on_the_way, busy = {o.source for o in _makers(ours)}, {o.source for o in judgement.candidate.operations}
    later = (f"{source.rpartition(':')[0]}:{lines.start}" for lines in following(source))
    for line in later:
        if line not in busy - on_the_way and not only_keeps(line):
            return line
    return None


def _makers(ours: Sequence[Operation]) -> set[Operation]:
    """The operations of a way, and all that made what goes into it in the same step."""
    step, found, todo = ours[0].outputs[0].record.step, set(ours), list(ours)
    while todo:
        makers = {v.maker for v in todo.pop().inputs if v.maker is not None and v.record.step == step} - found
        found |= makers
        todo += makers
    return found


def _scales(judgement: Judgement, theirs: Sequence[Operation], ours: Sequence[Operation]) -> str | None:
    """Where one way multiplies by a number more often than the other, or at another place."""
    missing, extra = _without_counterpart(theirs, ours, scales=True), _without_counterpart(ours, theirs, scales=True)
    if extra:
        return extra[0].source
    if missing:
        return _before(judgement, missing[0], theirs, ours)
    return _first_other_word(ours, theirs)


def _scaled(judgement: Judgement, trial: Trial, ours: Sequence[Operation], theirs: Sequence[Operation]) -> str | None:
    """The line of a wrong factor: the first step that does not hand a factor on.

    Programs spread factors over their steps as they like; what enters such a step, and what comes out in the end, must be equal.
    """
    for mine, other in zip(ours, theirs, strict=True):
        if word(mine) in HOMOGENEOUS:
            continue
        for value in mine.inputs:
            if value not in judgement.wrong:
                continue
            for due in other.inputs:
                if _is_multiple(value, due):
                    return _factor(judgement, value, due, mine)
    if not _is_multiple(trial.value, trial.due):
        return None
    return _factor(judgement, trial.value, trial.due, None)


def _is_multiple(value: Value, due: Value) -> bool:
    """Whether a value is another multiple of a direction than is due."""
    if value.digest is None or due.digest is None or value.size != due.size:
        return False
    if not (is_telling(value) and is_telling(due)):
        return False
    if not _alike(_shape_of(value.digest), _shape_of(due.digest)):
        return False
    return digests.distance(value.digest, due.digest) > SAME


def _factor(judgement: Judgement, value: Value, due: Value, user: Operation | None) -> str | None:
    """The line of the number that makes another multiple, or where one is missing."""
    lacking = {v for v in judgement.reference.values.values() if judgement.lacking(v)}
    own, others = _steps_to(value, judgement.wrong), _steps_to(due, lacking)
    on_the_way = list(own)
    if user is not None:
        on_the_way.append(user)
    for operation in on_the_way:
        handed = alias_line(operation.source)
        if handed is not None:
            return handed
    scales = [o for o in own if word(o) == SCALE]
    strange = [o for o in scales if not _has_number(o, others)]
    found = next(iter(strange or scales or own), user)
    if found is None:
        return None
    if found not in strange:
        return found.source
    return number_line(found.source, {o.source or "" for o in judgement.candidate.operations}) or found.source


def _steps_to(value: Value, followed: Container[Value]) -> list[Operation]:
    """The steps that hand factors on to a value, as far as results are among some values."""
    found: list[Operation] = []
    todo = [value]
    while todo and len(found) < MOST:
        item = todo.pop()
        maker = item.maker
        if maker is None or item not in followed or maker in found:
            continue
        if word(maker) in HOMOGENEOUS or not _computes(maker):
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
    if operation.kind == "power" and squares:
        return "multiply"
    return operation.kind


def _computes(operation: Operation) -> bool:
    return operation.kind not in MOVES and operation.kind not in ("fill", "negative")


def _way(judgement: Judgement, due: Value) -> list[Operation]:
    """The reference's operations that compute on the way to a value, in order."""
    return sorted((o for o in way_to(judgement, due, MOST) if _computes(o)), key=lambda o: o.order)


def _from_shared(judgement: Judgement, theirs: Sequence[Operation], ours: list[Operation]) -> list[Operation]:
    """The candidate's way, begun where the reference's begins.

    What comes between may happen to be right.
    """
    begins = {v for o in theirs for v in o.inputs if _is_shared(judgement, v)}
    shared = {id(v) for begin in begins for v in judgement.backwards.equals(begin)}
    found = list(ours)
    for value in {v for o in ours for v in o.inputs if judgement.is_right(v)}:
        for operation in _back_to(shared, value):
            if _computes(operation) and operation not in found:
                found.append(operation)
    return sorted(found, key=lambda o: o.order)


def _back_to(shared: set[int], value: Value) -> list[Operation]:
    """The operations from a value back to a shared one (by ``id``); none if it is far."""
    path: list[Operation] = []
    while id(value) not in shared and value.maker is not None and len(path) <= BEFORE:
        path.append(value.maker)
        telling = [v for v in value.maker.inputs if is_telling(v) and v.size == value.size]
        if len(telling) != 1:
            break
        value = telling[0]
    if id(value) in shared and len(path) <= BEFORE:
        return path
    return []


def _without_counterpart(these: Sequence[Operation], those: Sequence[Operation], *, scales: bool = False) -> list[Operation]:
    """The operations whose words the other way has fewer of.

    Numbers decide which of them, where it has some.
    """
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
    for other in others:
        if word(other) != word(operation):
            continue
        if any(abs(a - b) <= SAME * max(abs(a), abs(b)) for a in own for b in other.numbers):
            return True
    return False


def _shape_of(digest: str) -> tuple[float, ...]:
    """The numbers of a digest that stay when values are multiplied by any number."""
    known = digests.figures(digest)
    sign = math.copysign(1.0, known.low + known.high)
    ends = (known.low, known.high) if sign > 0 else (-known.high, -known.low)
    return (sign * known.mean, known.absolute, known.fourth, *ends)


def _alike(one: Sequence[float], other: Sequence[float]) -> bool:
    return all(abs(a - b) <= SAME * max(1.0, abs(a), abs(b)) for a, b in zip(one, other, strict=True))


def _constant_line(maker: Operation | None, other: Operation | None) -> str | None:
    """The line that made a constant which an operation takes in place of another."""
    if maker is None or other is None or word(maker) != word(other):
        return None
    due = {v.digest for v in other.inputs}
    made = [v for v in maker.inputs if v.is_constant and v.digest not in due and v.maker is not None]
    known = any(v.is_constant for v in other.inputs)
    lines = [v.maker.source for v in made if v.maker is not None and v.maker.kind == "fill"]
    if known and len(lines) == 1:
        return lines[0]
    return None


def _before(judgement: Judgement, missing: Operation, theirs: Sequence[Operation], ours: Sequence[Operation]) -> str | None:
    """The line where a step is missing.

    Where a name is only handed on, where its input was made, or where what follows is done.
    """
    made = set(missing.outputs)
    follows = [o for o in theirs if not made.isdisjoint(o.inputs)]
    words = {word(o) for o in follows}
    consumer = next((o for o in ours if word(o) in words), ours[0])
    handed = alias_line(consumer.source)
    if handed is not None:
        return handed
    before = [v for v in _made(missing.inputs) if _is_shared(judgement, v)]
    sources_before = {v.maker.source for v in before if v.maker is not None}
    sources_behind = {o.source for o in follows}
    if missing.source not in sources_before or missing.source in sources_behind:
        return consumer.source
    line = consumer.source
    for begin in before:
        for value in judgement.backwards.equals(begin):
            maker = value.maker
            if maker is None or value.order >= consumer.order:
                continue
            if maker.stack and _leads(value, consumer):
                line = maker.source
    return line


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
