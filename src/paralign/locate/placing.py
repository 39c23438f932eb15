"""At which of the candidate's lines a step of the reference is missing: between what stands before and after it in its function."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paralign.adapters._kinds import MOVES
from paralign.locate.matching import is_telling
from paralign.locate.paths import common, taken_besides
from paralign.locate.written import following, function_of, preceding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from paralign.locate.graph import Operation, Value
    from paralign.locate.judgement import Judgement

#: operations before and after a missing one among which its neighbours are looked for
WINDOW = 200


def place(judgement: Judgement, mended: Judgement, missing: Operation, user: Operation, after: Operation | None) -> str | None:
    """The candidate's line at which a step is missing; None where none of the operations around it is known on both sides.

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
    known = {after: user} if after is not None and after is not missing else {}
    ended = {v.maker: user for v in missing.inputs if v.maker is not None and not judgement.lacking(v)} if after is None else {}
    both = (judgement, mended)
    before = _nearest(_counterparts(both, _around(judgement, missing, -1), ended))
    behind = _nearest(_counterparts(both, _around(judgement, missing, 1), known))
    depths = [min(pairs[0].shared, len(missing.stack) - 1) if pairs else -1 for pairs in (before, behind)]
    within = depths[0] == depths[1] and any(pair.counterpart is user for pair in behind)  # the function goes on with the user
    first, second = (
        [found for pair in pairs if (found := _lines(missing, pair, beside)) is not None] if depth == max(depths) else []
        for pairs, depth, beside in zip((before, behind), depths, (user, before[0].counterpart) if within else (None, None), strict=True)
    )
    deepest = max((found[4] for found in (*first[:1], *second[:1])), default=0)  # the nearest tell in which function it is
    home = Counter(function_of(found[2]) for found in (*first, *second) if found[4] == deepest).most_common(1)
    first, second = ([found for found in each if function_of(found[2]) == home[0][0]] for each in (first, second))
    together = sorted((*first, *second), key=lambda found: found[3].kind in MOVES)
    beside = next((theirs for own, other, theirs, *_ in together if own == other), None)
    if beside is not None or not (first or second):
        return beside
    latest = max((f for f in first if f[3].order < user.order), key=lambda f: f[3].order, default=None) or next(iter(first), None)
    later = user.kind == missing.kind or _is_residual(judgement, user, missing)  # of a sum one term, it may be
    after_it = [f for f in second if latest is None or f[3].order > latest[3].order]
    soonest = min(after_it, key=lambda f: f[3].order, default=None)
    return _between(judgement, latest and latest[2], soonest and soonest[2], later=later)


def _between(judgement: Judgement, first: str | None, second: str | None, *, later: bool) -> str | None:
    """The line between two lines of a function: one in which nothing is ever done; else one of the two."""
    done = {line for o in judgement.candidate.operations for line in o.stack}
    if first is not None:
        file, end = first.rpartition(":")[0], int(second.rpartition(":")[2]) if second is not None else None
        for span in following(first):
            if end is not None and span.start <= end < span.stop:
                break
            if not any(f"{file}:{line}" in done for line in span):
                return f"{file}:{span.start}"
    elif second is not None:
        span_before = preceding(second)
        file = second.rpartition(":")[0]
        if span_before is not None and not any(f"{file}:{line}" in done for line in span_before):
            return f"{file}:{span_before.start}"
    return second if first is None or (later and second is not None) else first


def _is_residual(judgement: Judgement, user: Operation, missing: Operation) -> bool:
    """Whether others take a value as in the reference: it was handed on rightly, and the step is missing later."""
    taken = [v for v in user.inputs if v.maker is not None and judgement.is_right(v) and is_telling(v)]
    return any(taken_besides(judgement, value, user, missing) for value in taken)


@dataclass(frozen=True)
class _Pair:
    """An operation of the reference near the missing one, how many of the outermost calls both were done in, and its counterpart."""

    other: Operation
    shared: int
    counterpart: Operation


def _around(judgement: Judgement, missing: Operation, step: int) -> Iterator[tuple[Operation, int]]:
    """The reference's operations before or after one, the nearest first, and how many of its calls they were done in.

    Two rounds of a loop have the same lines: behind what lies further out, nothing lies further in.
    """
    operations = judgement.reference.operations
    at = operations.index(missing)
    shared = len(missing.stack)
    for other in operations[at + 1 : at + 1 + WINDOW] if step > 0 else operations[max(0, at - WINDOW) : at][::-1]:
        shared = min(shared, common(missing, other))
        yield other, shared


def _counterparts(
    judgements: tuple[Judgement, Judgement], operations: Iterable[tuple[Operation, int]], known: dict[Operation, Operation]
) -> list[_Pair]:
    """Of operations of the reference those that the candidate does too, as it is or mended, with what does them there."""
    length = [max(1, len(graph.operations)) for graph in (judgements[0].reference, judgements[0].candidate)]
    found = []
    for other, shared in operations:
        makers = [known[other]] if other in known else next(filter(None, (_makers(j, other.outputs) for j in judgements)), [])
        computing = [m for m in makers if m.kind not in MOVES and other.kind not in MOVES]
        alike = [m for m in makers if m.kind == other.kind] or computing  # what moves a value is no neighbour by what another one makes
        if alike and other.stack:
            place = other.order / length[0]
            found.append(_Pair(other, shared, min(alike, key=lambda m: abs(m.order / length[1] - place))))
    return found


def _makers(judgement: Judgement, values: list[Value]) -> list[Operation]:
    same = [m for v in values if is_telling(v) for m in judgement.backwards.equals(v)]
    return [m.maker for m in same if m.maker is not None and m.maker.stack]


def _nearest(pairs: list[_Pair]) -> list[_Pair]:
    """Those of the pairs that were done in most of the missing operation's calls; what only moves values, anyone's, comes last."""
    most = max((pair.shared for pair in pairs), default=0)
    return sorted((pair for pair in pairs if pair.shared == most), key=lambda pair: pair.counterpart.kind in MOVES)


def _lines(missing: Operation, pair: _Pair, partner: Operation | None) -> tuple[str, str, str, Operation, int] | None:
    """The lines of a missing operation and of its neighbour in the function where their calls part, and the candidate's beside them."""
    shared = min(pair.shared, len(missing.stack) - 1, len(pair.other.stack) - 1)
    own, beside = missing.stack[len(missing.stack) - 1 - shared], pair.other.stack[len(pair.other.stack) - 1 - shared]
    if function_of(own) != function_of(beside):
        return None
    lines = pair.counterpart.stack
    depth = shared if partner is None or partner is pair.counterpart else max(shared, common(pair.counterpart, partner))
    return own, beside, lines[max(0, len(lines) - 1 - depth)], pair.counterpart, depth
