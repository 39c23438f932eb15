"""The candidate's line at which a step is missing: between the step's neighbours."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paralign.adapters._kinds import MOVES
from paralign.locate.runs.counterparts import is_telling
from paralign.locate.runs.traverse import CONTEXT, common, computing_users, made, makers, makers_of, taken_besides, users_of
from paralign.locate.source.statements import behind_loop, calls, following, function_of, gives_back, preceding
from paralign.model import SourceLine

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from paralign.locate.runs.dataflow import Operation, Value
    from paralign.locate.runs.judgement import Judgement

#: operations before and after a missing one among which its neighbours are looked for
WINDOW = 200


@dataclass(frozen=True)
class _Pair:
    """An operation of the reference near the missing one, and its counterpart.

    ``shared`` is how many of the outermost calls both the operation and the missing one were done in.
    """

    other: Operation
    shared: int
    counterpart: Operation


@dataclass(frozen=True)
class _Neighbour:
    """A neighbour of a missing step, in the function where their calls part.

    ``missing_line`` and ``other_line`` are the reference's lines of the two, ``line`` the candidate's line of the neighbour's
    counterpart, ``depth`` how many calls deep that one lies.
    """

    missing_line: str
    other_line: str
    line: str
    counterpart: Operation
    depth: int

    @property
    def order(self) -> int:
        """When the counterpart was done."""
        return self.counterpart.order


def place(judgement: Judgement, mended: Judgement, missing: Operation, user: Operation, after: Operation | None) -> str | None:
    """The candidate's line at which a step is missing, told by the operations around it.

    Of the reference's operations around the missing one, those are its neighbours that share most of its calls: they were done in the
    function that it was done in. The candidate's function is that of their counterparts. A step that shares its line with a neighbour is
    missing in that one's line; one on a line of its own in what stands between them.

    Args:
        judgement: of the run as it is.
        mended: the same with the reference's values in place of what was found, where more is right.
        missing: the reference's operation.
        user: the candidate's operation that takes a value without it.
        after: the reference's operation beside that one, or the one that made what it should take.
    """
    if not missing.stack:  # a step of the framework's own, of which no line is known
        return None
    known, ended = _known_counterparts(judgement, missing, user, after)
    both = (judgement, mended)
    before = _nearest(_counterparts(both, _around(judgement, missing, -1), ended))
    behind = _nearest(_counterparts(both, _around(judgement, missing, 1), known))
    first, second = _neighbours(missing, user, before, behind)
    first, second = _in_one_function(first, second)
    together = sorted((*first, *second), key=lambda found: found.counterpart.kind in MOVES)
    for found in together:
        if found.missing_line == found.other_line:
            return found.line
    if not together:
        return None
    latest = _latest_before(first, user)
    soonest = _soonest_after(second, latest)
    later = user.kind == missing.kind or _is_residual(judgement, user, missing)  # of a sum one term, it may be
    first_line = None if latest is None else latest.line
    second_line = None if soonest is None else soonest.line
    return between(judgement, first_line, second_line, later=later)


def _known_counterparts(
    judgement: Judgement, missing: Operation, user: Operation, after: Operation | None
) -> tuple[dict[Operation, Operation], dict[Operation, Operation]]:
    """The reference's operations that ``user`` stands for, behind the step or at the end."""
    if after is missing:
        return {}, {}
    if after is not None:
        return {after: user}, {}
    ended = {}
    for value in missing.inputs:
        if value.maker is not None and not judgement.lacking(value):
            ended[value.maker] = user
    return {}, ended


def _neighbours(missing: Operation, user: Operation, before: list[_Pair], behind: list[_Pair]) -> tuple[list[_Neighbour], list[_Neighbour]]:
    """The neighbours before and behind a missing step, of those that share most of its calls."""
    depths = [min(pairs[0].shared, len(missing.stack) - 1) if pairs else -1 for pairs in (before, behind)]
    innermost = max(depths)
    goes_on_with_user = depths[0] == depths[1] and any(pair.counterpart is user for pair in behind)
    at_home = [pairs[0].counterpart for pairs in (before, behind) if pairs and len(pairs[0].other.stack) > innermost]
    deep = min((len(o.stack) for o in at_home), default=WINDOW) - 1  # deeper than these it cannot lie
    first: list[_Neighbour] = []
    second: list[_Neighbour] = []
    if depths[0] == innermost:
        first = _located(missing, before, user if goes_on_with_user else None, deep)
    if depths[1] == innermost:
        second = _located(missing, behind, before[0].counterpart if goes_on_with_user else None, deep)
    return first, second


def _located(missing: Operation, pairs: list[_Pair], partner: Operation | None, deep: int) -> list[_Neighbour]:
    """The neighbours of a missing step whose lines are known."""
    found = []
    for pair in pairs:
        neighbour = _lines(missing, pair, partner, deep)
        if neighbour is not None:
            found.append(neighbour)
    return found


def _in_one_function(first: list[_Neighbour], second: list[_Neighbour]) -> tuple[list[_Neighbour], list[_Neighbour]]:
    """The neighbours in the function that most of the deepest are in."""
    deepest = max((found.depth for found in (*first[:1], *second[:1])), default=0)
    counts = Counter(function_of(found.line) for found in (*first, *second) if found.depth == deepest)
    if not counts:
        return [], []
    home = counts.most_common(1)[0][0]
    inside = [[found for found in side if function_of(found.line) == home] for side in (first, second)]
    return inside[0], inside[1]


def _latest_before(first: list[_Neighbour], user: Operation) -> _Neighbour | None:
    """The last neighbour that is done before an operation, else the nearest."""
    earlier = [found for found in first if found.order < user.order]
    if earlier:
        return max(earlier, key=lambda found: found.order)
    return first[0] if first else None


def _soonest_after(second: list[_Neighbour], latest: _Neighbour | None) -> _Neighbour | None:
    """The first neighbour that is done behind another one; None without one."""
    later = [found for found in second if latest is None or found.order > latest.order]
    return min(later, key=lambda found: found.order, default=None)


def in_helper(judgement: Judgement, missing: Operation, user: Operation) -> str | None:
    """The line of a helper called several times that lacks the step each time."""
    around = {function_of(line) for line in user.stack}
    for value in user.inputs:
        maker = value.maker
        if maker is None or len(maker.stack) <= 1:
            continue
        if judgement.partners_of([value]).isdisjoint(missing.inputs):
            continue
        if function_of(maker.stack[0]) in around:  # the step is missing there, behind what made the value
            continue
        alike = [o for o in judgement.candidate.operations if (o.source, o.kind) == (maker.source, maker.kind)]
        if _is_called_often(maker, alike) and _each_lacks_its_own(judgement, alike, missing):
            return maker.source
    return None


def _is_called_often(maker: Operation, alike: list[Operation]) -> bool:
    """Whether an operation's helper is called from several lines, or often in one."""
    callers = {o.stack[1] for o in alike if len(o.stack) > 1}
    return len(callers) > 1 or calls(maker.stack[1], maker.stack[0]) > 1


def _each_lacks_its_own(judgement: Judgement, alike: list[Operation], missing: Operation) -> bool:
    """Whether each of some operations lacks a step like the missing one, each another."""
    steps: set[Operation] = set()
    for operation in alike:
        lacked = _lacked(judgement, operation, missing)
        if not lacked:
            return False
        steps.update(lacked)
    return len(steps) >= len(alike)


def _lacked(judgement: Judgement, operation: Operation, missing: Operation) -> list[Operation]:
    """The reference's steps on a value, like another one, that the candidate lacks."""
    found = []
    for value in operation.outputs:
        for user in users_of(judgement.partners(value)):
            if user.kind != missing.kind or user.numbers != missing.numbers:
                continue
            if any(map(judgement.lacking, user.outputs)):
                found.append(user)
    return found


def left_unused(judgement: Judgement, missing: Operation) -> str | None:
    """The line after that which makes in vain what a missing operation should take.

    What a function gives back is its caller's. A line that does something else does not count: the step may belong behind it.
    """
    done = _done_lines(judgement)
    for due in filter(is_telling, missing.inputs):
        maker = _makes_in_vain(judgement, due)
        line = None if maker is None else _innermost_kept(maker)
        if line is None:
            continue
        place, after = SourceLine.of(line), next(iter(following(line)), range(0))
        if place is None or not after or any(str(place.at(number)) in done for number in after):
            return None
        return str(place.at(after.start))
    return None


def _done_lines(judgement: Judgement) -> set[str]:
    """The lines by which operations of the candidate were called."""
    return {line for operation in judgement.candidate.operations for line in operation.stack}


def _makes_in_vain(judgement: Judgement, due: Value) -> Operation | None:
    """What makes a value of the reference that the candidate has and nowhere uses."""
    same = judgement.backwards.equals(due)
    outputs = [second for _, second, _ in judgement.outputs]
    for value in same:
        if value in outputs or value.maker is None:
            return None
        if any(user.kind not in MOVES for user in computing_users(value)):
            return None
    with_line = [maker for maker in makers(same) if maker.stack]
    return with_line[-1] if with_line else None


def _innermost_kept(maker: Operation) -> str | None:
    """The innermost line of an operation that does not give its function's result back."""
    for line in maker.stack:
        if not gives_back(line):
            return line
    return None


def elsewhere(judgement: Judgement, missing: Operation, user: Operation) -> str | None:
    """The line where a missing step is done instead, with its other operand.

    None where the value is used as the reference uses it, or not at all.
    """
    if missing.kind in MOVES or missing.kind == "slice":
        return None
    taken = judgement.partners_of(user.inputs)
    if taken.isdisjoint(missing.inputs):
        return None
    for due in missing.inputs:
        if due in taken or due.maker is None or not is_telling(due):
            continue
        same = judgement.backwards.equals(due)
        theirs = _uses_elsewhere(judgement, same, missing)
        others = _other_uses(judgement, same, user)
        for operation in _unmatched(others, theirs):
            if _is_around(operation, user, missing):
                return operation.stack[0]
    return None


def _uses_elsewhere(judgement: Judgement, values: list[Value], missing: Operation) -> set[Operation]:
    """What else the reference does with some values, as far as the candidate lacks it."""
    found = set()
    for partner in judgement.partners_of(values):
        for user in computing_users(partner):
            same_step = (user.source, user.kind) == (missing.source, missing.kind)
            if not same_step and all(map(judgement.lacking, user.outputs)):
                found.add(user)
    return found


def _other_uses(judgement: Judgement, values: list[Value], user: Operation) -> list[Operation]:
    """What the candidate does wrongly with some values and what it makes of them."""
    todo = list(values)
    found = []
    for value in todo:
        for other in value.users:
            if _is_right(judgement, other):
                if len(todo) < CONTEXT:
                    todo += made(other)
            elif other is not user and not _is_half_of_right(judgement, other):
                found.append(other)
    return found


def _is_half_of_right(judgement: Judgement, operation: Operation) -> bool:
    """Whether an operation is the first half of what is right."""
    return any(_is_right(judgement, user) for user in users_of(made(operation)))


def _is_right(judgement: Judgement, operation: Operation) -> bool:
    return judgement.wrong.isdisjoint(made(operation))


def _unmatched(others: list[Operation], theirs: set[Operation]) -> list[Operation]:
    """Operations by kind, beyond as many as the reference does as well."""
    known = {o.kind for o in theirs}
    strange = [o for o in others if o.kind not in known]
    left = known - {o.kind for o in others}
    if len({o.kind for o in strange}) > len(left):
        return strange
    return []


def taken_plainly(judgement: Judgement, missing: Operation, user: Operation) -> Operation:
    """The first operation on the way that takes what a missing step should have taken.

    It comes before ``user`` where what it makes tells nothing: the sum of shares is one, whatever they are shares of.
    """
    step = user
    for _ in range(CONTEXT):
        plain = [v for v in step.inputs if not is_telling(v)]
        before = [maker for maker in makers(plain) if maker.stack]
        if len(before) != 1:
            return user
        step = before[0]
        if _takes_the_same(judgement, step, missing):
            return step
    return user


def _takes_the_same(judgement: Judgement, operation: Operation, missing: Operation) -> bool:
    """Whether an operation takes a telling value that the missing step takes in the reference."""
    telling = filter(is_telling, operation.inputs)
    return any(partner in missing.inputs for value in telling for partner in judgement.partners(value))


def _is_around(operation: Operation, user: Operation, missing: Operation) -> bool:
    """Whether an operation is done around ``user``, or is the missing step further out.

    The latter lies as deep in calls as the reference's.
    """
    depth = len(operation.stack)
    if depth == 0:
        return False
    calling = depth == len(missing.stack) < len(user.stack) and operation.kind == missing.kind
    if depth != len(user.stack) and not calling:
        return False
    return operation.stack[1:] == user.stack[len(user.stack) - depth + 1 :]


def between(judgement: Judgement, first: str | None, second: str | None, *, later: bool) -> str | None:
    """The line between two lines of a function: an idle one, one behind a loop, or an end."""
    done = _done_lines(judgement)
    if first is None:
        before = None if second is None else preceding(second)
        place = SourceLine.of(second)
        if place is not None and before is not None and _is_idle(done, place, before):
            return str(place.at(before.start))
        return second
    begin, end = SourceLine.of(first), SourceLine.of(second)
    for span in following(first):
        if end is not None and span.start <= end.line < span.stop:
            break
        if begin is not None and _is_idle(done, begin, span):
            return str(begin.at(span.start))
    if second is None:
        return first
    return behind_loop(first, second) or (second if later else first)


def _is_idle(done: set[str], place: SourceLine, lines: range) -> bool:
    """Whether some lines of a file called no operation."""
    return all(str(place.at(line)) not in done for line in lines)


def _is_residual(judgement: Judgement, user: Operation, missing: Operation) -> bool:
    """Whether others take a value as the reference's do: then the step is missing later."""
    taken = [v for v in user.inputs if v.maker is not None and judgement.is_established(v)]
    return any(taken_besides(judgement, value, user, missing) for value in taken)


def _around(judgement: Judgement, missing: Operation, step: int) -> Iterator[tuple[Operation, int]]:
    """The reference's operations around one, nearest first, with the calls they share.

    Two rounds of a loop have the same lines: behind what lies further out, nothing lies further in.
    """
    operations = judgement.reference.operations
    at = operations.index(missing)
    around = operations[at + 1 : at + 1 + WINDOW] if step > 0 else operations[max(0, at - WINDOW) : at][::-1]
    shared = len(missing.stack)
    for other in around:
        shared = min(shared, common(missing, other))
        yield other, shared


def _counterparts(
    judgements: tuple[Judgement, Judgement], operations: Iterable[tuple[Operation, int]], known: dict[Operation, Operation]
) -> list[_Pair]:
    """The reference's operations that the candidate does too, as it is or mended."""
    reference, candidate = (max(1, len(graph.operations)) for graph in (judgements[0].reference, judgements[0].candidate))
    found = []
    for other, shared in operations:
        if not other.stack:
            continue
        makers = [known[other]] if other in known else _makers_in_either(judgements, other)
        alike = _alike(makers, other)
        if alike:
            share = other.order / reference
            nearest = min((abs(m.order / candidate - share), n) for n, m in enumerate(alike))
            found.append(_Pair(other, shared, alike[nearest[1]]))
    return found


def _makers_in_either(judgements: tuple[Judgement, Judgement], other: Operation) -> list[Operation]:
    """What makes a reference operation's results, in the run as it is, else the mended one."""
    for judgement in judgements:
        makers = makers_of(judgement, other.outputs)
        if makers:
            return makers
    return []


def _alike(makers: list[Operation], other: Operation) -> list[Operation]:
    """Of some operations those of the other's kind, else computing ones; with a line.

    What moves a value is no neighbour by what another operation makes. The framework's own step lies at no line of the user's.
    """
    chosen = [m for m in makers if m.kind == other.kind]
    if not chosen and other.kind not in MOVES:
        chosen = [m for m in makers if m.kind not in MOVES]
    return [m for m in chosen if m.stack]


def _nearest(pairs: list[_Pair]) -> list[_Pair]:
    """The pairs that share most of the missing operation's calls; moves last."""
    most = max((pair.shared for pair in pairs), default=0)
    return sorted((pair for pair in pairs if pair.shared == most), key=lambda pair: pair.counterpart.kind in MOVES)


def _lines(missing: Operation, pair: _Pair, partner: Operation | None, deep: int) -> _Neighbour | None:
    """A missing step's neighbour in the function where their calls part.

    The candidate's function lies ``deep`` calls within, at most.
    """
    shared = min(pair.shared, len(missing.stack) - 1, len(pair.other.stack) - 1)
    own = missing.stack[len(missing.stack) - 1 - shared]
    beside = pair.other.stack[len(pair.other.stack) - 1 - shared]
    if function_of(own) != function_of(beside):
        return None
    within = shared
    if partner is not None and partner is not pair.counterpart:
        within = max(shared, common(pair.counterpart, partner))
    depth = min(deep, within)
    lines = pair.counterpart.stack
    return _Neighbour(own, beside, lines[max(0, len(lines) - 1 - depth)], pair.counterpart, depth)
