"""Bounds that no value reached: clamps with other bounds agree, and so does none."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from paralign.locate.optimizer.setting_lines import code_at
from paralign.locate.reaching import reached
from paralign.locate.runs.construction import line_or_name
from paralign.locate.runs.traverse import makers, taken_by, users_of
from paralign.locate.source.call_arguments import is_number
from paralign.locate.suspects.differing_constants import listed, of_loss, written_numbers

if TYPE_CHECKING:
    from paralign.locate.runs.dataflow import Graph, Operation
    from paralign.locate.runs.judgement import Judgement

#: kinds of operations that bound values by numbers, and those that may do so in other words
_BOUNDING, _OTHERS = frozenset({"clip", "relu"}), frozenset({"maximum", "minimum", "where"})

#: numbers from here on are no bounds: Paddle writes nearly the greatest of its type, or of float32, where there is none
_NONE = {"int64": 2.0**62, "int32": 2.0**31 - 2.0**8}
_NO_REAL = 3.4e38

#: bounds as near as float32 holds them are the same
_SAME = 1e-6

#: a call of a clamp
_CLAMP = re.compile(r"\b(?:clip|clamp|clamp_min|clamp_max)_?\s*\(")

#: operands of a clamp by a tensor: values, and their one bound
_WITH_BOUND = 2


@dataclass
class Unreached:
    """Bounds that differ without effect, in words.

    And clamps of one side that change nothing and have no counterpart: ``alone`` of the reference, ``added`` by the candidate.
    """

    differing: list[str] = field(default_factory=list)
    alone: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)

    @property
    def warning(self) -> str:
        """What is said of bounds that differ; '' where none do."""
        if not self.differing:
            return ""
        return (
            f"bounds that no value reached differ at {len(self.differing)} places, so that nothing shows which are right: "
            f"{listed(self.differing)}. Use larger inputs, or trained weights"
        )

    @property
    def notes(self) -> list[str]:
        """What is said of clamps that one side alone has."""
        found = []
        if self.alone:
            found.append(
                f"bounds of the reference that no value reached, and that the candidate does not have, were not tested, at "
                f"{len(self.alone)} places: {listed(self.alone)}"
            )
        if self.added:
            found.append(
                f"bounds of the candidate that no value reached, and that the reference does not have, were not tested, at "
                f"{len(self.added)} places: {listed(self.added)}"
            )
        return found


def unreached(judgement: Judgement, *, loss: bool = False) -> Unreached:
    """The bounds of both sides whose difference shows in no value.

    Args:
        judgement: of the runs that were compared.
        loss: only of the operations of the loss.
    """
    found = Unreached()
    graphs = judgement.reference, judgement.candidate
    theirs, ours = (of_loss(graph) if loss else set(graph.operations) for graph in graphs)
    answered: set[Operation] = set()
    for operation in judgement.candidate.operations:
        if operation not in ours or not _may_bound(operation):
            continue
        known = filter(judgement.is_established, operation.inputs)
        users = set(users_of(judgement.partners_of(known)))
        answered |= users
        place = _differing(judgement, operation, users)
        if place and place not in found.differing:
            found.differing.append(place)
    unanswered = theirs - answered
    for operation in judgement.reference.operations:
        if operation not in unanswered or not _changes_nothing(operation):
            continue
        if _chain(operation).isdisjoint(answered):
            found.alone.append(_told_alone(judgement.reference, operation))
    for operation in judgement.candidate.operations:
        if operation not in ours or not _changes_nothing(operation):
            continue
        if _is_called(operation) and not _has_counterpart(judgement, operation):
            found.added.append(_told_alone(judgement.candidate, operation))
    return found


def _may_bound(operation: Operation) -> bool:
    """Whether operations of the kind bound values, in whatever words."""
    return operation.kind in _BOUNDING or operation.kind in _OTHERS


def _told_alone(graph: Graph, operation: Operation) -> str:
    return f"{line_or_name(graph, operation)} ({_told(_bounds(operation) or (-math.inf, math.inf))})"


def _is_called(operation: Operation) -> bool:
    """Whether the user's line calls a clamp, not a function that clamps inside."""
    code = code_at(operation.source)
    return code is not None and _CLAMP.search(code) is not None


def _has_counterpart(judgement: Judgement, operation: Operation) -> bool:
    """Whether the reference bounds a value of a candidate's clamp or its chain."""
    partners = judgement.partners_of(taken_by(_chain(operation)))
    return any(map(_may_bound, users_of(partners)))


def _differing(judgement: Judgement, operation: Operation, users: set[Operation]) -> str:
    """Where a right result has other bounds than the reference sets; '' without any."""
    twin = judgement.twin(operation)
    if twin is None or judgement.makes_wrong(operation):
        return ""
    own, due = _of_chain(operation), _of_chain(twin)
    if own is None or due is None or _alike(own, due):
        return ""
    for user in users:
        bounds = _of_chain(user)
        if bounds is not None and _alike(own, bounds):
            return ""
    here, there = line_or_name(judgement.candidate, operation), line_or_name(judgement.reference, twin)
    return f"{here} ({_told(own)}, the reference {_told(due)} at {there})"


def _told(bounds: tuple[float, float]) -> str:
    low, high = bounds
    return f"{low:g} to {high:g}"


def _alike(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return all(math.isclose(a, b, rel_tol=_SAME) for a, b in zip(one, other, strict=True))


def _bounds(operation: Operation) -> tuple[float, float] | None:
    """Between which numbers an operation keeps values; None where that is not known."""
    if "relu6" in operation.op:
        return 0.0, 6.0
    told = {name: float(value) for name, value in operation.arguments.items() if is_number(value)}
    if operation.kind == "relu":
        return None if told else (0.0, math.inf)
    if len(operation.inputs) > 1:
        return _bounds_by_operand(operation)
    if operation.kind != "clip":
        return None
    none = _NO_REAL
    if operation.outputs:
        none = _NONE.get(operation.outputs[0].record.dtype, _NO_REAL)
    bounds = {name: value for name, value in told.items() if abs(value) < none}
    low = next((value for name, value in bounds.items() if "min" in name), -math.inf)
    high = next((value for name, value in bounds.items() if "max" in name), math.inf)
    return None if (low, high) == (-math.inf, math.inf) else (low, high)


def _bounds_by_operand(operation: Operation) -> tuple[float, float] | None:
    """The bounds of an operation whose one bound is a tensor; None if not written."""
    known = written_numbers(operation)
    if len(known) != 1 or len(operation.inputs) > _WITH_BOUND:
        return None
    if operation.kind == "maximum" or "clamp_min" in operation.op:
        return known[0], math.inf
    if operation.kind == "minimum" or "clamp_max" in operation.op:
        return -math.inf, known[0]
    return None


def _chain(operation: Operation) -> set[Operation]:
    """An operation and those that bound its result, or what it takes, in a chain."""
    return set(reached([operation], _bounding_beside))


def _bounding_beside(operation: Operation) -> list[Operation]:
    """The operations right before and behind one that may bound values."""
    beside = makers(operation.inputs) + users_of(operation.outputs)
    return list(filter(_may_bound, beside))


def _of_chain(operation: Operation) -> tuple[float, float] | None:
    """The bounds of all of a chain together; None where those of one are not known."""
    lows: list[float] = []
    highs: list[float] = []
    for each in _chain(operation):
        bounds = _bounds(each)
        if bounds is None:
            return None
        lows.append(bounds[0])
        highs.append(bounds[1])
    return max(lows), min(highs)


def _changes_nothing(operation: Operation) -> bool:
    """Whether a clamp hands on all values as they are."""
    if operation.kind != "clip" or len(operation.inputs) != 1 or _bounds(operation) is None:
        return False
    digest = operation.inputs[0].digest
    return digest is not None and digest == operation.outputs[0].digest
