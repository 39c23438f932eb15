"""At which of the candidate's lines a step of the reference is missing: between what stands before and after it in its function."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paralign.adapters._kinds import MOVES
from paralign.locate.runs.counterparts import is_telling
from paralign.locate.runs.traverse import CONTEXT, common, computing, computing_users, inner_lines, made, makers_of, taken_besides
from paralign.locate.source.statements import behind_loop, calls, following, function_of, gives_back, preceding
from paralign.model import SourceLine

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from paralign.locate.runs.dataflow import Graph, Operation, Value
    from paralign.locate.runs.judgement import Judgement

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
    if not missing.stack:  # a step of the framework's own, of which no line is known
        return None
    known = {after: user} if after is not None and after is not missing else {}
    ended = {v.maker: user for v in missing.inputs if v.maker is not None and not judgement.lacking(v)} if after is None else {}
    both = (judgement, mended)
    before = _nearest(_counterparts(both, _around(judgement, missing, -1), ended))
    behind = _nearest(_counterparts(both, _around(judgement, missing, 1), known))
    depths = [min(pairs[0].shared, len(missing.stack) - 1) if pairs else -1 for pairs in (before, behind)]
    within = depths[0] == depths[1] and any(pair.counterpart is user for pair in behind)  # the function goes on with the user
    at_home = [pairs[0].counterpart for pairs in (before, behind) if pairs and len(pairs[0].other.stack) > max(depths)]
    deep = min((len(o.stack) for o in at_home), default=WINDOW) - 1  # deeper than these it cannot lie
    first, second = (
        [found for pair in pairs if (found := _lines(missing, pair, beside, deep)) is not None] if depth == max(depths) else []
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


def idle_layer(judgement: Judgement, operation: Operation, user: Operation) -> str:
    """The layer of the candidate with the parameters of a reference's operation, where it is never called; else ''.

    ``user`` takes what the reference's operation takes, but plainly. Where nothing is called of the module that the layer is a part of,
    it is that module. The parameters of an operation without any are those of the next one, if both are parts of such a module.
    """
    if not any(p in operation.inputs for v in user.inputs if is_telling(v) for p in judgement.partners(v)):
        return ""
    named = {judgement.homes.get(v.record.name, "") for v in _parameters(judgement, operation)}
    homes = {name.rpartition(".")[0] for name in named}
    home = layer = homes.pop() if len(homes) == 1 else ""
    called = {o.module for o in judgement.candidate.operations}
    found = ""
    while home and not any(f"{module}.".startswith(f"{home}.") for module in called):
        found, home = home, home.rpartition(".")[0]
    own = any(v.is_parameter for v in operation.inputs)
    return found if own or found != layer else ""  # the steps of one layer are told by those around them


def _parameters(judgement: Judgement, operation: Operation) -> list[Value]:
    """The parameters that a reference's operation takes; or the first that takes some of those after it whose results are lacking."""
    todo, seen = [operation], {operation}
    while todo:
        step = todo.pop(0)
        found = [v for v in step.inputs if v.is_parameter]
        if found or len(seen) > CONTEXT:
            return found
        after = dict.fromkeys(u for v in step.outputs if judgement.lacking(v) for u in v.users if u not in seen)
        todo += after
        seen.update(after)
    return []


def beside_idle_layer(judgement: Judgement, missing: Operation, user: Operation) -> str | None:
    """The line beside which a layer is not called that the candidate has, with the missing step's parameters; None without such a layer.

    It belongs where its fellows in the same module are called.
    """
    home, graph = idle_layer(judgement, missing, user), judgement.candidate
    around = home.rpartition(".")[0]
    if not home or around in graph.kinds:
        return None
    between_parts = _between_parts(judgement, around, user)
    if between_parts is not None:
        return between_parts
    fellows = _called_in(graph, around, user)
    if not fellows:
        return None
    same = [own.maker for v in missing.inputs for own in judgement.backwards.equals(v)]
    givers = [o for o in fellows if o in same and o.stack != user.stack]
    givers = [o for o in givers if any(v.maker is o for v in user.inputs)] or givers
    if givers and user in fellows and function_of(givers[0].stack[0]) != function_of(user.stack[0]):
        return _between(judgement, None, user.stack[0], later=False)  # after a helper that made what both take
    before = (givers[:1] or [o for o in fellows if o.order < user.order and o.stack != user.stack])[-1:]
    at = before[0] if before else user
    after = [o for o in fellows if o.order >= at.order and not (before and o.stack == at.stack)][:1]
    first, second = (found[0].stack[0] if found else None for found in (before, after))
    return _between(judgement, first if givers else _made_later(user, before) or first, second, later=False)


def _between_parts(judgement: Judgement, module: str, user: Operation) -> str | None:
    """The line before the one in which ``user``'s part is called, of a module that only calls parts which are modules of the user's own.

    All operations of such parts have the calls outside of the module in common; the next line further in is the module's.
    """
    inner = f"{module}." if module else ""
    done = [o for o in judgement.candidate.operations if o.stack and o.module.startswith(inner)]
    parts = {_part_of(o, inner) for o in done}
    layers = any(f"{inner}{part}" in judgement.candidate.kinds for part in parts)
    if user not in done or layers or len(parts) < 2:  # noqa: PLR2004 - several
        return None
    outside = min(_shared_calls(o, user) for o in done if _part_of(o, inner) != _part_of(user, inner))
    lines = {o: o.stack[-1 - outside] for o in done if len(o.stack) > outside}
    if user not in lines or len({function_of(line) for line in lines.values()}) != 1:
        return None
    before = [o for o in lines if o.order < user.order and lines[o] != lines[user]]
    return _between(judgement, lines[before[-1]] if before else None, lines[user], later=True)


def _part_of(operation: Operation, inner: str) -> str:
    """The part of a module, by its path, in which an operation is done."""
    return operation.module[len(inner) :].partition(".")[0]


def _shared_calls(one: Operation, other: Operation) -> int:
    """How many of the outermost lines that led to two operations are the same."""
    pairs = zip(reversed(one.stack), reversed(other.stack), strict=False)
    return next((n for n, (first, second) in enumerate(pairs) if first != second), min(len(one.stack), len(other.stack)))


def _called_in(graph: Graph, module: str, user: Operation) -> list[Operation]:
    """The operations that a module calls itself; where ``user`` is one of its parts', also those of parts that its function calls."""
    called = [o for o in graph.operations if o.stack]
    own = [o for o in called if (o.module.rpartition(".")[0] if o.module in graph.kinds else o.module) == module]
    inner = f"{module}." if module else ""
    around = function_of(user.stack[0]) if user.stack and user.module.startswith(inner) else None
    if around is None or (own and all(function_of(o.stack[0]) != around for o in own)):  # a function of one of its parts
        return own
    return [o for o in called if o in own or (o.module.startswith(inner) and function_of(o.stack[0]) == around)]


def _made_later(user: Operation, before: list[Operation]) -> str | None:
    """The line of an operation's function in which what it takes was made, perhaps deeper in calls, if that was after other ones."""
    makers = [maker for v in user.inputs if (maker := computing(v.maker)) is not None and maker.stack[1:] != user.stack[1:]]
    for maker in makers if user.stack else []:
        line, at = inner_lines(maker, user)
        if at == user.stack[0] != line and function_of(line) == function_of(at) and all(o.order < maker.order for o in before):
            return line
    return None


def in_helper(judgement: Judgement, missing: Operation, user: Operation) -> str | None:
    """The line of a helper that makes, from several calls, what the reference always does a step to that is missing; None without one."""
    around = {function_of(line) for line in user.stack}
    for value in user.inputs:
        maker = value.maker
        if maker is None or len(maker.stack) <= 1 or not any(p in missing.inputs for p in judgement.partners(value)):
            continue
        if function_of(maker.stack[0]) in around:  # the step is missing there, behind what made the value
            continue
        alike = [o for o in judgement.candidate.operations if o.source == maker.source and o.kind == maker.kind]
        several = len({o.stack[1] for o in alike if len(o.stack) > 1}) > 1 or calls(maker.stack[1], maker.stack[0]) > 1
        lacked = [_lacked(judgement, o, missing) for o in alike]
        if several and all(lacked) and len({step for steps in lacked for step in steps}) >= len(alike):  # each lacks its own
            return maker.source
    return None


def _lacked(judgement: Judgement, operation: Operation, missing: Operation) -> list[Operation]:
    """The steps like another one that the reference does with what an operation makes, and the candidate does not."""
    users = [u for v in operation.outputs for p in judgement.partners(v) for u in p.users]
    return [u for u in users if u.kind == missing.kind and u.numbers == missing.numbers and any(map(judgement.lacking, u.outputs))]


def left_unused(judgement: Judgement, missing: Operation) -> str | None:
    """The line after that which makes, for nothing, what a missing operation should take; None where nothing is made in vain.

    What a function gives back is its caller's. A line that does something else does not count: the step may belong behind it.
    """
    done = {line for o in judgement.candidate.operations for line in o.stack}
    given = [second for _, second, _ in judgement.outputs]
    for due in missing.inputs:
        same = judgement.backwards.equals(due) if is_telling(due) else []
        makers = [v.maker for v in same if v.maker is not None and v.maker.stack]
        used = any(v in given or v.maker is None or any(u.kind not in MOVES for u in computing_users(v)) for v in same)
        for line in makers[-1].stack if makers and not used else ():
            if gives_back(line):
                continue
            place, after = SourceLine.of(line), next(iter(following(line)), range(0))
            if place is None or not after or any(str(place.at(number)) in done for number in after):
                return None
            return str(place.at(after.start))
    return None


def elsewhere(judgement: Judgement, missing: Operation, user: Operation) -> str | None:
    """The line that does something else with what the missing operation takes besides: there the step is done, but at the wrong place.

    None where the value is used as the reference uses it, or not at all.
    """
    taken = judgement.partners_of(user.inputs)
    besides = missing.kind not in MOVES and missing.kind != "slice" and any(due in taken for due in missing.inputs)
    for due in missing.inputs if besides else []:
        if due in taken or due.maker is None or not is_telling(due):
            continue
        todo = list(judgement.backwards.equals(due))
        theirs = {u for value in todo for p in judgement.partners(value) for u in computing_users(p)}
        theirs = {
            u for u in theirs if (u.source, u.kind) != (missing.source, missing.kind) and all(judgement.lacking(v) for v in u.outputs)
        }
        others = []
        for value in todo:
            for other in value.users:
                if _is_right(judgement, other):
                    todo += made(other) if len(todo) < CONTEXT else []
                elif other is not user and not any(_is_right(judgement, u) for v in made(other) for u in v.users):
                    others.append(other)  # and not the first half of what is right
        found = next((o for o in _unmatched(others, theirs) if _is_around(o, user, missing)), None)
        if found is not None:
            return found.stack[0]
    return None


def _is_right(judgement: Judgement, operation: Operation) -> bool:
    return all(judgement.is_right(v) for v in made(operation))


def _unmatched(others: list[Operation], theirs: set[Operation]) -> list[Operation]:
    """Operations besides those that the reference does as well, by their kind; none where it does as many: they follow from the fault."""
    known = {o.kind for o in theirs}
    strange = [o for o in others if o.kind not in known]
    left = known - {o.kind for o in others}
    return strange if len({o.kind for o in strange}) > len(left) else []


def taken_plainly(judgement: Judgement, missing: Operation, user: Operation) -> Operation:
    """The first operation on the way to a candidate's one that takes what a missing step should have taken.

    It comes before ``user`` where what it makes tells nothing: the sum of shares is one, whatever they are shares of.
    """
    step = user
    for _ in range(CONTEXT):
        makers = [v.maker for v in step.inputs if v.maker is not None and not is_telling(v) and v.maker.stack]
        if len(makers) != 1:
            return user
        step = makers[0]
        if any(is_telling(v) and p in missing.inputs for v in step.inputs for p in judgement.partners(v)):
            return step
    return user


def _is_around(operation: Operation, user: Operation, missing: Operation) -> bool:
    """Whether an operation is done in the function of another one; or what the reference misses, as deep as there, in one that calls it."""
    depth = len(operation.stack)
    within = depth == len(user.stack) or (depth == len(missing.stack) < len(user.stack) and operation.kind == missing.kind)
    return depth > 0 and within and operation.stack[1:] == user.stack[len(user.stack) - depth + 1 :]


def _between(judgement: Judgement, first: str | None, second: str | None, *, later: bool) -> str | None:
    """The line between two lines of a function: one in which nothing is done, one behind a loop that ended; else one of the two."""
    done = {line for o in judgement.candidate.operations for line in o.stack}
    begin, end = SourceLine.of(first), SourceLine.of(second)
    if first is not None:
        for span in following(first):
            if end is not None and span.start <= end.line < span.stop:
                break
            if begin is not None and not any(str(begin.at(line)) in done for line in span):
                return str(begin.at(span.start))
        ended = behind_loop(first, second) if second is not None else None
        if ended is not None:
            return ended
    elif second is not None:
        span_before = preceding(second)
        if end is not None and span_before is not None and not any(str(end.at(line)) in done for line in span_before):
            return str(end.at(span_before.start))
    return second if first is None or (later and second is not None) else first


def _is_residual(judgement: Judgement, user: Operation, missing: Operation) -> bool:
    """Whether others take a value as in the reference: it was handed on rightly, and the step is missing later."""
    taken = [v for v in user.inputs if v.maker is not None and judgement.is_established(v)]
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
        makers = [known[other]] if other in known else next(filter(None, (makers_of(j, other.outputs) for j in judgements)), [])
        computing = [m for m in makers if m.kind not in MOVES and other.kind not in MOVES]
        alike = [m for m in makers if m.kind == other.kind] or computing  # what moves a value is no neighbour by what another one makes
        alike = [m for m in alike if m.stack]  # the framework's own step, such as one of the loss's, lies at no line of the user's
        if alike and other.stack:
            place = other.order / length[0]
            found.append(_Pair(other, shared, min(alike, key=lambda m: abs(m.order / length[1] - place))))
    return found


def _nearest(pairs: list[_Pair]) -> list[_Pair]:
    """Those of the pairs that were done in most of the missing operation's calls; what only moves values, anyone's, comes last."""
    most = max((pair.shared for pair in pairs), default=0)
    return sorted((pair for pair in pairs if pair.shared == most), key=lambda pair: pair.counterpart.kind in MOVES)


def _lines(missing: Operation, pair: _Pair, partner: Operation | None, deep: int) -> tuple[str, str, str, Operation, int] | None:
    """The lines of a missing operation and of its neighbour in the function where their calls part, and the candidate's beside them.

    The candidate's function lies ``deep`` calls within, at most.
    """
    shared = min(pair.shared, len(missing.stack) - 1, len(pair.other.stack) - 1)
    own, beside = missing.stack[len(missing.stack) - 1 - shared], pair.other.stack[len(pair.other.stack) - 1 - shared]
    if function_of(own) != function_of(beside):
        return None
    lines = pair.counterpart.stack
    depth = min(deep, shared if partner is None or partner is pair.counterpart else max(shared, common(pair.counterpart, partner)))
    return own, beside, lines[max(0, len(lines) - 1 - depth)], pair.counterpart, depth
