"""The first module call that goes wrong, by the values in and out of every call.

Both runs watched their module calls; nothing here needs names, definition order or the same split into modules on both
sides. A value of the candidate is *right* when the reference has it anywhere. The search starts from final outputs that are
wrong and walks back from call to call by equal values, so that what differs but rejoins (fused against separate steps) is
never looked at, and steps into a call as soon as its inputs are right.
"""

from __future__ import annotations

import linecache
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paralign.align import leaves
from paralign.capture.digest import agree, is_evidence
from paralign.locate.modules.tree import Call, Trace
from paralign.locate.modules.verdicts import Judge
from paralign.model import DIVERGED, Divergence, Pair, Point, SourceLine

if TYPE_CHECKING:
    from paralign.capture import Capture
    from paralign.model import Record


def first_module(reference: Capture, candidate: Capture, *, run: str, tolerance: float) -> Divergence | None:
    """Where the candidate's module calls of one pass first go wrong.

    The guilty call is the innermost one whose inputs are all right and whose output is wrong; where no module call inside it
    is at fault, the fault lies in the code between them, and the pair's notes say between which. A missing operation shows
    in the call that consumes its result, or in the call inside which it is missing.

    Args:
        reference: a capture with records of module calls (attribute ``module``), with digests; values are not needed.
        candidate: likewise.
        run: the pass to look at, as in ``Record.run``.
        tolerance: how far the numbers of two digests of the same value may differ: about 1e-7 in float64, the noise in float32.

    Returns:
        None where the outputs of the whole model agree (digests do not see order: a mere permutation agrees), or where a side
        has no records of module calls in this pass, or where the tolerance is 1 or more: no values can be told apart by it.

    Raises:
        UsageError: a negative tolerance, or NaN.
        CaptureFormatError: a record has a digest that is none.
    """
    if tolerance >= 1:
        return None
    ours = Trace(reference.select(run=run), tolerance)
    theirs = Trace(candidate.select(run=run), tolerance)
    judge = Judge(ours, theirs, tolerance)
    for root, wrong in _wrong_roots(ours, theirs, tolerance):
        return _divergence(judge, _search(judge, root, wrong))
    return None


def _wrong_roots(ours: Trace, theirs: Trace, tolerance: float) -> list[tuple[Call, list[str]]]:
    """The candidate's outermost calls with differing outputs, and the digests of those."""
    found: dict[Call, list[str]] = {}
    makers = {id(r): call for call in theirs.roots for r in call.outputs}
    for one, other, _ in leaves(_outputs(ours.roots), _outputs(theirs.roots)):
        if one is None or other is None or not one.digest or not other.digest:
            continue
        if not agree(one.digest, other.digest, tolerance):
            found.setdefault(makers[id(other)], []).append(other.digest)
    return sorted(found.items(), key=lambda item: item[0].order)


def _outputs(calls: list[Call]) -> list[Record]:
    """What some calls give."""
    return [record for call in calls for record in call.outputs]


@dataclass
class _Fault:
    """A guilty call. ``between``: its own code made the value that ``consumer`` met first."""

    call: Call
    wrong: list[str]
    between: bool = False
    consumer: Call | None = None

    @property
    def start(self) -> int:
        """Calls that were completed earlier came before the fault."""
        if self.between:
            return self.consumer.start if self.consumer else self.call.order
        return self.call.start


def _search(judge: Judge, root: Call, wrong: list[str]) -> _Fault:
    """Step inwards from a guilty call for as long as a call inside it is guilty."""
    fault = _Fault(root, wrong)
    while fault.call.children and not fault.between:
        fault = _inside(judge, fault.call, fault.wrong)
    shortfall = _shortfall(judge, fault)
    if shortfall is None:
        return fault
    return _Fault(shortfall, shortfall.made, between=bool(shortfall.children))


def _inside(judge: Judge, container: Call, wrong: list[str]) -> _Fault:
    """Walk back from a call's wrong outputs to the first of its children that is guilty.

    Where a wrong value was made by no child, and no child before it could have spoilt it, the container's own code is guilty.
    """
    due: list[_Fault] = []
    others: list[_Fault] = []
    seen: set[Call] = set()
    todo: list[tuple[str, Call | None]] = [(digest, None) for digest in wrong]
    while todo:
        digest, consumer = todo.pop()
        makers = judge.makers(container, digest, consumer)
        if not makers:
            others.append(_Fault(container, [digest], between=True, consumer=consumer))
        for child in makers:
            if child in seen:
                continue
            seen.add(child)
            bad = judge.bad_inputs(child)
            todo += [(value, child) for value in bad]
            if not bad:
                (due if judge.due(child) else others).append(_Fault(child, judge.bad_outputs(child)))
    for faults in (due, others):  # a call that should have made something else is the surer sign
        if faults:
            return min(faults, key=lambda fault: fault.start)
    return _Fault(container, wrong, between=True)


def _shortfall(judge: Judge, fault: _Fault) -> Call | None:
    """The call that handed on a right value too early, without doing all that its twin does.

    Only asked where something is missing rather than wrong: the value is known to the reference, but it is used for
    something that the reference does not use it for.
    """
    digests = filter(is_evidence, _used_otherwise(judge, fault))
    before = [maker for digest in digests for maker in judge.candidate.made.find(digest) if maker.order < fault.start]
    return min(filter(judge.falls_short, before), key=lambda call: call.order, default=None)


def _used_otherwise(judge: Judge, fault: _Fault) -> list[str]:
    """The digests of values that the reference may use for something else."""
    if fault.between:
        return [digest for digest in fault.wrong if judge.known(digest)]  # a right value at the wrong place
    twin = judge.twin(fault.call)
    if twin is not None and twin.kind == fault.call.kind:
        return []
    return fault.call.consumed


def _divergence(judge: Judge, fault: _Fault) -> Divergence:
    notes = []
    foreign = judge.foreign_inputs(fault.call)
    if foreign:
        fault = _Fault(_outermost(fault.call), fault.wrong)
        notes.append("an input of the whole model is not among the reference's values: give both sides the same inputs")
    call, twin = fault.call, judge.twin(fault.call)
    last = judge.last_agreeing(fault.start)
    if fault.between:
        notes.append(_place(fault, last))
    elif not foreign and (twin is None or twin.kind != call.kind):
        notes.append(_misplaced(twin))
    record, partner = _records(call, twin, fault.wrong)
    pair = Pair(record.key, partner, record, how="content", verdict=DIVERGED, notes=notes)
    return Divergence(
        _point(twin) if twin else None, _point(call), pair, inputs_agree=not foreign, last_agreeing=last.name if last else None
    )


def _outermost(call: Call) -> Call:
    while call.parent is not None:
        call = call.parent
    return call


def _records(call: Call, twin: Call | None, wrong: list[str]) -> tuple[Record, Record | None]:
    """A wrong record of a call, and the reference's at its place."""
    record = next((r for r in call.outputs if r.digest in wrong), (call.outputs or call.inputs)[0])
    due = [] if twin is None else twin.outputs
    for one, other, _ in leaves(due, call.outputs):
        if other is record and one is not None:
            return record, one
    return record, due[0] if due else None


def _place(fault: _Fault, last: Call | None) -> str:
    after = before = ""
    if last is not None and last.start >= fault.call.start:
        after = f", after {_described(last)}"
    if fault.consumer is not None:
        before = f", before {_described(fault.consumer)}"
    return f"its modules work as they should: the code between them makes the wrong value or misses a step{after}{before}"


def _misplaced(twin: Call | None) -> str:
    if twin is None:
        return "no module of the reference consumes these inputs: a step before this one may be missing, or this one misplaced"
    return f"the reference hands these inputs to {_described(twin)}: that step may be missing before this one"


def _described(call: Call) -> str:
    said = f"{call.name!r} ({call.op}" if call.name else f"the model ({call.op}"
    if call.number:
        said += f", call {call.number + 1}"
    if call.source:
        said += f", {call.source}"
    return f"{said})"


def _point(call: Call) -> Point:
    place = SourceLine.of(call.source)
    code = "" if place is None else linecache.getline(place.file, place.line).strip()
    return Point(call.name, call.op, call.source, code or None)
