"""Rules about numbers that enter a fault: they ask how both programs made them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from paralign.adapters._kinds import MOVES
from paralign.capture import digest as digests
from paralign.locate.lines import tables
from paralign.locate.lines.kinds import Kind
from paralign.locate.lines.rule import Rule, ablated
from paralign.locate.provenance import tracing_back
from paralign.locate.reaching import reached
from paralign.locate.runs.construction import construction
from paralign.locate.runs.traverse import makers

if TYPE_CHECKING:
    from paralign.locate.laboratory.watched import Watched
    from paralign.locate.lines.choose import Fault
    from paralign.locate.provenance.search.blamed import Blamed
    from paralign.locate.runs.dataflow import Operation, Value
    from paralign.locate.runs.judgement import Judgement

#: operations that take a value as it is, or a part of it
_PARTS = MOVES | {"slice", "split"}

#: the id of the rule on whose answer others build
TABLE = "origin-of-numbers"


@dataclass(frozen=True)
class Numbers:
    """A fault, and the programs that may be run again to see how they make numbers."""

    fault: Fault
    program: Watched

    @cached_property
    def table(self) -> str | None:
        """The line that made the numbers which enter a fault, where these are to blame.

        Those that enter the first of several steps are, if no change of a single step would mend the result and no other step stands
        out.
        """
        if TABLE in ablated():
            return None
        guilt, operation, kind = self.fault.guilt, self.fault.operation, self.fault.kind
        made = self._origin(tables.given(guilt, operation, *guilt.trial.region), certain=kind is Kind.GIVEN)
        if made is not None or kind is not Kind.REGION:
            return made
        if guilt.repair is not None or operation is not guilt.trial.suspect:
            return None
        return self._origin(tables.given(guilt, operation), certain=True)

    def _origin(self, bare: list[str], *, certain: bool) -> str | None:
        """The line that made one of some values of numbers alone."""
        return self.program.origin(bare, certain) if bare else None

    @cached_property
    def seen(self) -> Fault:
        """The fault, in the light of where its numbers came from."""
        return self.fault if self.table is None else replace(self.fault, kind=Kind.GIVEN)

    @cached_property
    def number(self) -> str | None:
        """The line of the one number that a formula's repair changes wherever it stands."""
        repair = self.fault.guilt.repair
        if repair is None or repair.number is None:
            return None
        return self.program.number_line(repair.line, repair.number)

    @cached_property
    def traced(self) -> Blamed | None:
        """The expression that made a number, or what is given besides tensors."""
        repair = self.fault.guilt.repair
        if repair is None:
            return self._of_kind()
        if repair.taken is None:
            return None
        sides = self._recorded()
        return None if sides is None else tracing_back.of_number(sides, repair.line, repair.taken)

    def _of_kind(self) -> Blamed | None:
        """The expression, as the kind of fault lets it be looked for."""
        fault = self.seen
        operation, other = fault.operation, fault.other
        if fault.kind is Kind.DIFFERENT and other is not None and other.kind == operation.kind:
            return self._of_arguments(operation, other)
        if fault.kind is Kind.ORDER and other is not None:
            return self._of_places(operation, other)
        if fault.kind not in (Kind.REGION, Kind.GIVEN, Kind.MISSING):
            return None
        sides = self._recorded()
        if sides is None:
            return None
        return self._of_what_is_given(sides, fault)

    def _of_what_is_given(self, sides: tracing_back.Sides, fault: Fault) -> Blamed | None:
        """The expression that made a buffer, an array or a number which a fault's lines take."""
        operation = fault.operation
        found = None
        if fault.kind is Kind.GIVEN:
            found = _of_buffer(sides, operation, fault.other) or _of_constant(sides, operation, fault.other)
        if found is not None:
            return found
        lines = [line for each in (operation, *fault.guilt.trial.region) for line in each.stack[:1]]
        found = tracing_back.of_lines(sides, lines, _library_numbers(fault.judgement), _parameters(fault.judgement))
        if fault.kind is Kind.MISSING and found is not None and not found.is_table:
            return None
        return found

    def _of_places(self, operation: Operation, other: Operation) -> Blamed | None:
        """The expression that made the places from which elements are taken in another order."""
        own, theirs = _taking_a_buffer(operation), _taking_a_buffer(other)
        sides = self._recorded() if own is not None and theirs is not None else None
        return None if sides is None or own is None else _of_buffer(sides, own, theirs)

    def _of_arguments(self, operation: Operation, other: Operation) -> Blamed | None:
        """The expression that made an argument which the reference's operation has otherwise."""
        if not tracing_back.differing_values(operation.arguments, other.arguments):
            return None
        sides = self._recorded()
        if sides is None:
            return None
        judgement = self.fault.judgement
        built = bool(construction(judgement.candidate, operation))
        sound, passed = _sound_numbers(judgement), _passed(judgement, operation)
        return tracing_back.of_operation(sides, (operation, other), built=built, sound=sound, passed=passed)

    def _recorded(self) -> tracing_back.Sides | None:
        """Both sides' expressions of construction and of a pass, with a watched loss."""
        values = {name: capture for name, capture in self.program.given.items() if name in ("inputs", "labels")}
        return tracing_back.recorded(self.program.context, "model", values)


def _library_numbers(judgement: Judgement) -> set[float]:
    """The numbers that the reference's operations take, a library's defaults among them."""
    return {number for operation in judgement.reference.operations for number in operation.numbers}


def _parameters(judgement: Judgement) -> list[tuple[int, float]]:
    """Size and root mean square of each parameter of the candidate's."""
    values = judgement.candidate.values.values()
    return [(value.size, digests.size_and_rms(value.digest)[1]) for value in values if value.is_parameter and value.digest is not None]


def _of_buffer(sides: tracing_back.Sides, operation: Operation, other: Operation | None) -> Blamed | None:
    """The expression that made the one buffer which an operation takes, or its order."""
    held = [value for value in _held(operation) if value.record.role == "buffer"]
    due = [value for each in held for value in (_held(other) if other is not None else ()) if value.size == each.size]
    if len(held) != 1:
        return None
    if not due:  # the reference keeps it in another form, as edges in place of a matrix: what that is made of is known all the same
        return tracing_back.of_root(sides, f"buffer:{held[0].record.name}")
    return None if len(due) != 1 else tracing_back.of_value(sides, f"buffer:{held[0].record.name}", f"buffer:{due[0].record.name}")


def _of_constant(sides: tracing_back.Sides, operation: Operation, other: Operation | None) -> Blamed | None:
    """The expression that made the one array which an operation is given."""
    given = [v for v in reached(operation.inputs, _whole) if v.maker is None and not v.record.name and v.digest is not None and v.size > 1]
    if len(given) != 1 or other is None or not operation.stack or not other.stack:
        return None
    size, rms = digests.size_and_rms(given[0].digest or "")
    return tracing_back.of_given(sides, (operation.stack[0], other.stack[0]), (int(size), rms))


def _taking_a_buffer(operation: Operation) -> Operation | None:
    """An operation, or what it only moves the result of, that takes a buffer."""
    way = reached([operation], lambda o: makers(o.inputs) if o is operation or o.kind in MOVES else [], nearest_first=True)
    return next((o for o in way if any(value.record.role == "buffer" for value in _held(o))), None)


def _held(operation: Operation) -> list[Value]:
    """What an operation takes of what the model holds, moved or cut out."""
    found = reached(operation.inputs, _whole)
    return [value for value in found if value.maker is None and value.record.role in ("buffer", "parameter")]


def _whole(value: Value) -> list[Value]:
    """What a value was moved or cut out from; nothing of one that was computed."""
    if value.maker is None or value.maker.kind not in _PARTS:
        return []
    return value.maker.inputs


def _passed(judgement: Judgement, operation: Operation) -> set[str]:
    """The lines by which right operations came to the innermost line of another one."""
    found: set[str] = set()
    for other in judgement.candidate.operations:
        if other is operation or not other.stack or other.source != operation.source:
            continue
        if not judgement.makes_wrong(other):
            found.update(other.stack[1:])
    return found


def _sound_numbers(judgement: Judgement) -> dict[str, set[float]]:
    """Line of the candidate -> numbers that its right operations take as the reference's."""
    sound: dict[str, set[float]] = defaultdict(set)
    for operation in judgement.candidate.operations:
        if not operation.stack or not operation.numbers or judgement.makes_wrong(operation):
            continue
        for twin in makers(judgement.partners_of(operation.outputs)):
            if twin.kind == operation.kind:
                sound[operation.stack[0]] |= {*operation.numbers} & {*twin.numbers}
    return sound


#: the strongest first
NUMBER_RULES: tuple[Rule[Numbers, str], ...] = (
    Rule(
        tracing_back.RULE,
        "the user's expression that made a value wrong, of right operands",
        lambda n: n.traced.source if n.traced is not None else None,
    ),
    Rule("origin-of-number", "where a number came from that a repair changes in several lines", lambda n: n.number),
    Rule(TABLE, "what made a table, an index or a mask of numbers alone", lambda n: n.table),
)
