"""Constants of corresponding operations that differ without effect on any value."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.adapters._kinds import MOVES, common_argument
from paralign.capture import digest as digests
from paralign.catalogue.parameters import literal, stored
from paralign.locate.reaching import reached
from paralign.locate.runs.construction import own_line
from paralign.locate.runs.counterparts import is_telling

if TYPE_CHECKING:
    from paralign.locate.runs.dataflow import Graph, Operation, Value
    from paralign.locate.runs.judgement import Judgement

#: the common name of the one number that an operator takes beside a tensor
OPERAND = "operand"

#: the common name of the number that a mask puts in place
FILLED = "filled"

#: operators whose result may hide that number, by their names in both frameworks
_OPERATORS = {
    "add": "add",
    "subtract": "subtract",
    "where": "where",
    "remainder": "remainder",
    "mod": "remainder",
    "eq": "eq",
    "equal": "eq",
    "ne": "ne",
    "not_equal": "ne",
    "gt": "gt",
    "greater_than": "gt",
    "ge": "ge",
    "greater_equal": "ge",
    "lt": "lt",
    "less_than": "lt",
    "le": "le",
    "less_equal": "le",
}

#: what frameworks call that number
_OPERAND_NAMES = frozenset({"1", "other", "value"})

#: whole numbers that values are computed with
_NUMBERS = frozenset({OPERAND, FILLED, "threshold", "beta", "alpha", "value", "offset", "delta", "nan", "posinf", "neginf", "epsilon"})

#: ways of computing that some inputs, or sizes, have in common
_CHOICES = frozenset({"padding_idx", "ignore_index", "ceil_mode", "align_corners", "stride", "right", "rounding_mode"})

#: real numbers that have conventions of their own, or show in train mode alone
_LEFT_OUT = frozenset({"momentum", "p", "dropout_p", "scale", "scale_factor"})

#: kinds that the frameworks divide in other ways: known by the labels that they take
_FUSED = frozenset({"cross_entropy"})

#: kinds that are compared elsewhere: bounds, what is drawn
_ELSEWHERE = frozenset({"clip", "maximum", "minimum", "dropout", "random", "fill"})

#: the numbers of element types: what they can tell apart from 1, their least, their greatest
_LIMITS = tuple(float(n) for kind in (np.float32, np.float64) for n in (np.finfo(kind).eps, np.finfo(kind).tiny, np.finfo(kind).max))

#: comparisons -> how a bound of whole numbers is rounded without another result
_BOUNDS = {"gt": math.floor, "le": math.floor, "ge": math.ceil, "lt": math.ceil}

#: numbers from here on stand for infinity where a mask puts them
_MASKING = 1e4

#: numbers as near as float32 holds them are the same
_SAME = 1e-6

#: places that a message lists
_LISTED = 3


@dataclass
class Unshown:
    """Constants that differ and that no value shows, in words: ``numbers`` and ``choices``."""

    numbers: list[str] = field(default_factory=list)
    choices: list[str] = field(default_factory=list)

    @property
    def warning(self) -> str:
        """What is said of numbers that values are computed with; '' where none differ."""
        if not self.numbers:
            return ""
        return (
            f"constants differ at {len(self.numbers)} places without effect on these values, so that nothing shows which are right: "
            f"{listed(self.numbers)}. Use other inputs, or trained weights"
        )

    @property
    def note(self) -> str:
        """What is said of settings that these inputs do not need; '' where none differ."""
        if not self.choices:
            return ""
        return f"settings that make no difference for these inputs differ at {len(self.choices)} places: {listed(self.choices)}"


def listed(places: list[str]) -> str:
    """The first places, and how many more."""
    return ", ".join(places[:_LISTED]) + (f" and {len(places) - _LISTED} more" if len(places) > _LISTED else "")


def of_loss(graph: Graph) -> set[Operation]:
    """The operations of a pass that the loss needs and the model's outputs do not."""
    loss, outputs = (
        {v.maker for v in reached(ends, lambda v: v.maker.inputs if v.maker is not None else ()) if v.maker is not None}
        for ends in ([] if graph.loss is None else [graph.loss], list(graph.outputs.values()))
    )
    return loss - outputs


def unshown(judgement: Judgement, natives: tuple[Graph | None, Graph | None], *, loss: bool = False) -> Unshown:
    """The constants of corresponding operations that differ although the results agree.

    Args:
        judgement: of the runs that were compared.
        natives: both sides' native runs: what follows the element type (``finfo(x.dtype).eps``) may be equal there.
        loss: only of the operations of the loss.
    """
    found, literal_values = Unshown(), _literals(judgement.candidate)
    ours, theirs = _Natively(judgement.candidate, natives[1]), _Natively(judgement.reference, natives[0])
    looked_at = of_loss(judgement.candidate) if loss else set(judgement.candidate.operations)
    for operation in (o for o in judgement.candidate.operations if o in looked_at):
        if operation.kind in _ELSEWHERE | MOVES or operation.random or all(v in literal_values for v in operation.inputs):
            continue
        counterparts = [other for other in _users(judgement, operation) if _corresponds(judgement, operation, other)]
        different = [(other, names) for other in counterparts if (names := _different(ours.constants(operation), theirs.constants(other)))]
        if not counterparts or len(different) < len(counterparts):
            continue
        other, names = different[0]
        for name, (one, two) in names.items():
            told = found.choices if name in _CHOICES else found.numbers
            place = _place(judgement, operation, other, f"{_called(name, operation)} {one!r}, the reference {two!r}")
            told += [place] if place not in told else []
    return found


def _place(judgement: Judgement, operation: Operation, other: Operation, values: str) -> str:
    """Both lines and what is said there."""
    line = own_line(judgement.candidate, operation) or operation.source or operation.module or operation.op
    reference = own_line(judgement.reference, other) or other.source or other.module or other.op
    return f"{line} ({values} at {reference})"


def _called(name: str, operation: Operation) -> str:
    """A constant in the words of the candidate's framework."""
    if name in (OPERAND, FILLED):
        return f"{operation.kind} by"
    return next((each for each in operation.arguments if common_argument(each) == name), name)


def _literals(graph: Graph) -> set[Value]:
    """The values that no input, parameter or buffer has part in."""
    found = {v for v in graph.values.values() if v.maker is None and _is_written(v)}
    for operation in graph.operations:
        if not operation.random and all(v in found for v in operation.inputs):
            found.update(operation.outputs)
    return found


def _is_written(value: Value) -> bool:
    """Whether a value without a maker is written in the code, not given to the model."""
    return value.record.role == "input" and not value.record.name


def _users(judgement: Judgement, operation: Operation) -> list[Operation]:
    """The reference's operations that take a value of a candidate's operation."""
    known = [v for v in operation.inputs if judgement.is_right(v) and (is_telling(v) or _is_input(v))]
    partners = [partner for value in known for partner in judgement.partners(value)]
    return list(dict.fromkeys(user for partner in partners for user in partner.users))


def _is_input(value: Value, depth: int = 4) -> bool:
    """Whether a value is given to the model or the loss, in any shape."""
    maker = value.maker
    if maker is not None:
        return maker.kind in MOVES and depth > 0 and bool(maker.inputs) and _is_input(maker.inputs[0], depth - 1)
    return value.record.role == "input" and bool(value.record.name)


def _corresponds(judgement: Judgement, operation: Operation, other: Operation) -> bool:
    """Whether two operations are of one kind and make the same of the same."""
    if _kind(operation) != _kind(other):
        return False
    if operation.kind in _FUSED:  # of which one side computes a part before, so that only the end tells
        return not judgement.wrong_outputs()
    if any(v in judgement.wrong for v in operation.outputs):
        return False
    if not judgement.same_inputs(operation, other):
        return False
    made, due = operation.outputs[0], other.outputs[0]
    return made.digest is not None and (made.digest == due.digest or due in judgement.partners(made))


def _kind(operation: Operation) -> str:
    return _OPERATORS.get(operation.kind, operation.kind)


class _Natively:
    """The constants of a side's operations, those left out that its native run has otherwise."""

    def __init__(self, graph: Graph, native: Graph | None) -> None:
        self._numbers = {} if native is None or native is graph else graph.same_operations(native)
        self._operations = {o.number: o for o in native.operations} if native is not None else {}

    def constants(self, operation: Operation) -> dict[str, Any]:
        found = of_operation(operation)
        native = self._operations.get(self._numbers.get(operation.number, -1))
        if native is None:
            return found
        again = of_operation(native)
        return {name: value for name, value in found.items() if name in again and _is_one(name, value, again[name])}


def of_operation(operation: Operation) -> dict[str, Any]:
    """The constants of an operation by common names, its framework's defaults among them."""
    given = {common_argument(name): value for name, value in operation.arguments.items()}
    defaults = _defaults(operation.op)
    found = {**(defaults if given.keys() <= defaults.keys() else {}), **given}  # else the kernel's names are not the function's
    if operation.kind in _OPERATORS:
        numbers = [value for name, value in operation.arguments.items() if name in _OPERAND_NAMES and _is_number(value)]
        numbers += [number for value in operation.inputs if (number := written_number(value)) is not None]
        name = FILLED if operation.kind == "where" else OPERAND
        return {name: _bound(operation, numbers[0])} if len(numbers) == 1 else {}
    return found


def _bound(operation: Operation, number: float) -> float:
    """The number of a comparison; of whole numbers, the whole number that divides them alike."""
    round_to = _BOUNDS.get(_kind(operation))
    whole = all(v.record.dtype.startswith(("int", "uint", "bool")) for v in operation.inputs[:1])
    return number if round_to is None or not whole or not math.isfinite(number) else round_to(number)


@cache
def _defaults(op: str) -> dict[str, Any]:
    """The defaults of a framework's function of an operation's name."""
    parts = op.split(".")
    framework, name = ("torch", parts[1]) if len(parts) > 1 else ("paddle", op)
    table = stored(framework)
    known = next((each for each in (f"{framework}.nn.functional.{name}", f"{framework}.{name}") if each in table), None)
    parameters = table.signature(known).parameters if known is not None else ()
    return {common_argument(each.name): None if each.default in (None, "...") else literal(each.default) for each in parameters}


def written_number(value: Value, depth: int = 4) -> float | None:
    """The number that an operand is written or filled with; None for other values."""
    if not value.is_constant or value.record.dtype == "bool" or value.digest is None or value.digest.count(",") != 1:
        return None
    maker = value.maker
    if maker is None:
        written = _is_written(value)
    elif maker.kind in MOVES and maker.inputs and depth:
        written = written_number(maker.inputs[0], depth - 1) is not None
    else:
        written = maker.kind in ("fill", "scalar_tensor")
    return digests.numbers(value.digest)[1] if written else None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _different(candidate: dict[str, Any], reference: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The constants that both have with other values."""
    return {
        name: (value, reference[name])
        for name, value in candidate.items()
        if name in reference
        and _is_compared(name, value, reference[name])
        and not _is_one(name, value, reference[name])
        and not (is_limit(value) and is_limit(reference[name]))
    }


def is_limit(value: Any) -> bool:
    """Whether a number is one of an element type's: it follows the precision of a run."""
    return _is_number(value) and any(math.isclose(abs(value), limit, rel_tol=_SAME) for limit in _LIMITS if limit)


def _is_compared(name: str, one: Any, other: Any) -> bool:
    if name in _CHOICES:
        return isinstance(one, type(other)) and not isinstance(one, (list, tuple))
    if name in _LEFT_OUT or not (_is_number(one) and _is_number(other)):
        return False
    return name in _NUMBERS or isinstance(one, float) or isinstance(other, float)


def _is_one(name: str, one: Any, other: Any) -> bool:
    """Whether two constants say the same."""
    if not (_is_number(one) and _is_number(other)):
        return bool(one == other)
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    if name == FILLED and min(abs(one), abs(other)) >= _MASKING:
        return bool((one < 0) == (other < 0))
    return math.isclose(one, other, rel_tol=_SAME)
