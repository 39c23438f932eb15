"""The one change of a candidate's formula that makes its result the reference's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from paralign.capture import digest as digests
from paralign.dtypes import widen
from paralign.errors import WorkerFailed
from paralign.locate.formula.relation import relation
from paralign.locate.formula.repair import LARGEST, VALUE, Formula, Repair, made_beside, operations_of
from paralign.locate.lines import choose
from paralign.locate.lines import region as regions
from paralign.locate.lines.kinds import Kind, classify
from paralign.locate.reaching import reached
from paralign.locate.runs.counterparts import broadcasts
from paralign.locate.runs.traverse import before_any_moves, taken_by, way_to
from paralign.locate.suspects.arranging import arranged
from paralign.locate.suspects.propose import Reason, Trial
from paralign.locate.types import Guilt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paralign.dtypes import Typed
    from paralign.locate.runs.dataflow import Graph, Operation, Value
    from paralign.locate.runs.judgement import Judgement

#: faults of which is said how their result comes from the reference's: each costs a run of both sides
RELATED = 1

#: operations of the reference whose numbers may be those that are due
WAY = 24


class Laboratory(Protocol):
    """What hands over values."""

    def values(self, wanted: Sequence[Value], *, own: bool = False) -> dict[Value, Typed]:
        """The values of the reference's run, whole; ``own``: of the candidate's."""


def repaired(laboratory: Laboratory, judgement: Judgement, found: list[Guilt]) -> list[Guilt]:
    """What was found guilty, with a repair where one change of a formula suffices.

    Of a loss in which several steps seem wrong, or none, or which is not right with the reference's value put there, one change that
    makes all of it right is looked for first.
    """
    doubtful = [guilt for guilt in found if not _is_plain(guilt) and guilt.trial.value.maker is not None]
    incomplete = any(guilt.after is not None and guilt.after > judgement.scale.equal for guilt in doubtful)
    if len(doubtful) > 1 or not found or incomplete:
        mended = _loss_repaired(laboratory, judgement, found)
        if mended is not None:
            return mended
    for guilt in doubtful:
        guilt.repair = _own_repair(laboratory, guilt)
    for guilt in found[:RELATED]:
        if guilt.repair is None:
            guilt.relation = _relation(laboratory, guilt)
    return found


def _own_repair(laboratory: Laboratory, guilt: Guilt) -> Repair | None:
    """The change that makes a fault's result right, if it says more than the kind of fault."""
    what, trial = classify(guilt)[0], guilt.trial
    if what == Kind.EXTRA:  # that it is not there is a change of its own
        return guilt.repair
    operations = operations_of(trial.value, trial.region)
    repair = _repair(laboratory, guilt.judgement, (trial.value, trial.due), operations, [guilt])
    if repair is not None and repair.cost >= VALUE and what in (Kind.MISSING, Kind.MISWIRED):
        return None  # the reference's step, or what it takes, tells the place
    return repair


def _relation(laboratory: Laboratory, guilt: Guilt) -> str:
    """How a wrong result comes from what is due; '' where that is not known."""
    value, due = guilt.trial.value, guilt.trial.due
    if value.maker is None or classify(guilt)[0] in (Kind.EXTRA, Kind.ORDER) or max(value.size, due.size) > LARGEST:
        return ""
    own, wanted = _whole(laboratory, [value], own=True), _whole(laboratory, [due], own=False)
    if value not in own or due not in wanted:
        return ""
    return relation(own[value], wanted[due], [v.shape for v in taken_by(guilt.trial.region or [value.maker])])


def _loss_repaired(laboratory: Laboratory, judgement: Judgement, found: list[Guilt]) -> list[Guilt] | None:
    """What was found guilty, with the one change that makes the loss right.

    Of a loss that is handed out with its terms, the first wrong term, where all that is wrong is made of it.
    """
    ends = _first_wrong(judgement)
    if ends is None or ends[0].maker is None:
        return None
    candidate, maker = ends[0], ends[0].maker
    region = [maker, *(o for guilt in found for o in (*guilt.trial.region, guilt.trial.suspect))]
    near = operations_of(candidate, region)
    whole = operations_of(candidate, region, called=True)  # of helpers, too, that the loss calls
    repair = _repair(laboratory, judgement, ends, near, found)
    if repair is None and len(whole) > len(near):
        repair = _repair(laboratory, judgement, ends, whole, found)
    if repair is None:
        return None
    of_run = [guilt for guilt in found if guilt.judgement is judgement]  # others are of runs in which the first is put right
    first = of_run[0] if of_run else Guilt(Trial(maker, *ends, Reason.OUTPUT), judgement, confirmed=True, error=0.0)
    first.repair = repair
    return [first, *(guilt for guilt in found if guilt is not first)]


def _first_wrong(judgement: Judgement) -> tuple[Value, Value] | None:
    """The loss or its first wrong term, and what is due; None if others do not hang on it."""
    outputs = judgement.wrong_outputs()
    if judgement.candidate.loss not in [own for _, own in outputs]:
        return None
    wrong = {before_any_moves(own): due for due, own in outputs}  # a term is handed out detached
    first = min(wrong, key=lambda own: own.order)
    after = set(reached([first], lambda v: [made for user in v.users for made in user.outputs]))
    if all(own in after for own in wrong):
        return (first, wrong[first])
    return None


def _is_plain(guilt: Guilt) -> bool:
    """Whether a fault is known without trying: the reference has the operation too."""
    what, other, operation = classify(guilt)
    if what in (Kind.ORDER, Kind.GIVEN):
        return True
    if what != Kind.DIFFERENT:
        return False
    return other is not None and other.kind == operation.kind


def _repair(
    laboratory: Laboratory, judgement: Judgement, ends: tuple[Value, Value], operations: list[Operation], found: list[Guilt]
) -> Repair | None:
    """The least far-fetched change; among equals one of a suspected line, else the first."""
    value, due = ends
    layered = any(o.module in judgement.candidate.kinds for o in operations)  # what a layer of the framework does is no formula
    if not operations or layered or not (value.size == due.size or broadcasts(due.shape, value.shape)):
        return None
    beside = _values_beside(judgement.candidate, operations)
    needed = [v for o in operations for v in (*o.inputs, *o.outputs)]
    arrays = _whole(laboratory, list(dict.fromkeys([*needed, *beside])), own=True)
    wanted = _whole(laboratory, [due], own=False)
    if due not in wanted:
        return None
    formula = Formula(operations, arrays, _numbers_on_way(way_to(judgement, due, WAY)), beside)
    repairs = formula.repairs(value, arranged(wanted[due], value.shape))
    suspected = {first.answer for guilt in found for first in choose.candidate_lines(guilt)[:1]}
    for repair in repairs:
        if repair.line in suspected:
            return repair
    return repairs[0] if repairs else None


def _values_beside(graph: Graph, operations: list[Operation]) -> list[Value]:
    """What a formula could take instead: outputs, labels, what is made beside it."""
    labels = [v for v in graph.values.values() if v.record.role == "input" and v.record.name.partition(".")[0] == "labels"]
    given = {*graph.outputs.values(), *labels}
    return [v for v in (*given, *made_beside(graph, operations)) if v.size <= LARGEST]


def _numbers_on_way(way: list[Operation]) -> set[float]:
    """The numbers that the reference's operations take, as arguments or as constants."""
    found: set[float] = set()
    for operation in way:
        found |= regions.numbers(operation.arguments)
        for value in operation.inputs:
            if value.maker is None or not value.maker.inputs:
                found.update(regions.constant(value))
    return found


def _whole(laboratory: Laboratory, values: list[Value], *, own: bool) -> dict[Value, Any]:
    """Values as arrays; those of a constant by its digest, and none of what cannot be told."""
    found: dict[Value, Any] = {}
    wanted: list[Value] = []
    for value in values:
        constant = _constant(value)
        if constant is not None:
            found[value] = constant
        elif _can_be_handed_over(value):
            wanted.append(value)
    try:
        handed = laboratory.values(wanted, own=own)
    except WorkerFailed:  # what hangs on these values is not tried
        return found
    return {**found, **{v: widen(typed) for v, typed in handed.items()}}


def _can_be_handed_over(value: Value) -> bool:
    """Whether a value was given by a name, or made as a result."""
    if value.maker is None:
        return bool(value.record.name)
    return not value.maker.written


def _constant(value: Value) -> Any:
    digest = value.digest
    if digest is None or not digest.startswith("c1:"):
        return None
    return np.full(value.shape, digests.numbers(digest)[1])
