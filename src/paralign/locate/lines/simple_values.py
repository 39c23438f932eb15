"""Plain values, which are met everywhere, count as right, and yet may be wrong here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.capture import digest as digests
from paralign.locate.reaching import reached
from paralign.locate.runs.counterparts import is_telling
from paralign.locate.runs.traverse import computing, taken_by
from paralign.locate.source.statements import alias_line, function_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from paralign.locate.runs.dataflow import Operation, Value

#: numbers that differ by less than this share are the same, stored in another precision
SAME = 1e-6


def input_line(operation: Operation, other: Operation | None, reference: Sequence[Operation] = ()) -> str | None:
    """The line that made or named the plain value that an operation takes wrongly.

    None where there is no such value, or none of several.

    Args:
        operation: the candidate's.
        other: the reference's.
        reference: where given, only if its operation takes what is computed of numbers alone, and none of these, of that kind, takes
            the value as well.
    """
    if other is None or other.kind != operation.kind or not operation.stack:
        return None
    foreign = _not_among(operation.inputs, other.inputs)
    due = _not_among(other.inputs, operation.inputs)
    if len(foreign) != 1 or len(due) != 1 or is_telling(foreign[0]):
        return None
    if reference and not _is_of_numbers(due[0]):
        return None
    alike = taken_by(each for each in reference if each.kind == operation.kind)
    if not _not_among(foreign, alike):
        return None
    maker = _first_of(foreign[0])
    if maker is None or not maker.stack or _is_stepped_on(foreign[0], due[0], other):
        return None
    made = maker.stack[0]
    taken = next((line for line in operation.stack if function_of(line) == function_of(made)), None)  # a helper may lie between
    return alias_line(taken, made) or made


def _not_among(values: Iterable[Value], others: Sequence[Value]) -> list[Value]:
    """Those of some values that none of others is."""
    return [value for value in values if not any(_is_same(value, other) for other in others)]


def _first_of(value: Value) -> Operation | None:
    """What made a plain value, past what hands it on or cuts it out."""
    maker = computing(value.maker)
    while maker is not None and maker.kind == "slice" and maker.inputs:
        if not _is_same(maker.inputs[0], value):
            break
        maker = computing(maker.inputs[0].maker)
    return maker


def _is_stepped_on(value: Value, due: Value, other: Operation) -> bool:
    """Whether the reference makes the due value of this one, beside the operation.

    Then the value is right, and the step is what the operation's own line lacks.
    """
    step = computing(due.maker)
    if step is None or step.source != other.source:
        return False
    return not _not_among([value], step.inputs) and all(each.maker is None or each.maker.source != step.source for each in step.inputs)


def _is_of_numbers(value: Value) -> bool:
    """Whether neither an input nor a parameter leads to a value."""
    for each in reached([value], lambda v: v.maker.inputs if v.maker is not None else ()):
        if each.maker is not None:
            continue
        if each.is_parameter or (each.record.role == "input" and each.record.name):
            return False
    return True


def _is_same(one: Value, other: Value) -> bool:
    """Whether two values hold the same, as often as they repeat it."""
    if one.digest is None or other.digest is None:
        return False
    return digests.distance(one.digest, other.digest, sized=False) <= SAME
