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
from paralign.locate.runs.construction import line_or_name
from paralign.locate.runs.counterparts import is_telling
from paralign.locate.runs.traverse import makers, users_of
from paralign.locate.source.call_arguments import is_number

if TYPE_CHECKING:
    from collections.abc import Iterable

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
    said = ", ".join(places[:_LISTED])
    if len(places) > _LISTED:
        said += f" and {len(places) - _LISTED} more"
    return said


def of_loss(graph: Graph) -> set[Operation]:
    """The operations of a pass that the loss needs and the model's outputs do not."""
    if graph.loss is None:
        return set()
    return _needed([graph.loss]) - _needed(graph.outputs.values())


def _needed(ends: Iterable[Value]) -> set[Operation]:
    """The operations that some values are computed with."""
    return set(reached(makers(ends), lambda operation: makers(operation.inputs)))


def unshown(judgement: Judgement, natives: tuple[Graph | None, Graph | None], *, loss: bool = False) -> Unshown:
    """The constants of corresponding operations that differ although the results agree.

    Args:
        judgement: of the runs that were compared.
        natives: both sides' native runs: what follows the element type (``finfo(x.dtype).eps``) may be equal there.
        loss: only of the operations of the loss.
    """
    found = Unshown()
    comparison = _Comparison(judgement, _Natively(judgement.candidate, natives[1]), _Natively(judgement.reference, natives[0]))
    looked_at = of_loss(judgement.candidate) if loss else set(judgement.candidate.operations)
    for operation in judgement.candidate.operations:
        if operation not in looked_at or not comparison.is_compared(operation):
            continue
        differing = comparison.differing(operation)
        if differing is None:
            continue
        other, names = differing
        for name, (one, two) in names.items():
            told = found.choices if name in _CHOICES else found.numbers
            place = _place(judgement, operation, other, f"{_called(name, operation)} {one!r}, the reference {two!r}")
            if place not in told:
                told.append(place)
    return found


class _Comparison:
    """Which constants of both sides' corresponding operations differ."""

    def __init__(self, judgement: Judgement, ours: _Natively, theirs: _Natively) -> None:
        self._judgement, self._ours, self._theirs = judgement, ours, theirs
        self._literals = _literals(judgement.candidate)

    def is_compared(self, operation: Operation) -> bool:
        """Whether the constants of an operation of the candidate are compared here."""
        if operation.kind in _ELSEWHERE | MOVES or operation.random:
            return False
        return not self._literals.issuperset(operation.inputs)

    def differing(self, operation: Operation) -> tuple[Operation, dict[str, tuple[Any, Any]]] | None:
        """The first counterpart and what differs, if each counterpart has constants that differ."""
        found = None
        for other in _users(self._judgement, operation):
            if not _corresponds(self._judgement, operation, other):
                continue
            names = _different(self._ours.constants(operation), self._theirs.constants(other))
            if not names:
                return None
            if found is None:
                found = other, names
        return found


def _place(judgement: Judgement, operation: Operation, other: Operation, values: str) -> str:
    """Both lines and what is said there."""
    return f"{line_or_name(judgement.candidate, operation)} ({values} at {line_or_name(judgement.reference, other)})"


def _called(name: str, operation: Operation) -> str:
    """A constant in the words of the candidate's framework."""
    if name in (OPERAND, FILLED):
        return f"{operation.kind} by"
    for each in operation.arguments:
        if common_argument(each) == name:
            return each
    return name


def _literals(graph: Graph) -> set[Value]:
    """The values that no input, parameter or buffer has part in."""
    found = {v for v in graph.values.values() if v.maker is None and _is_written(v)}
    for operation in graph.operations:
        if not operation.random and found.issuperset(operation.inputs):
            found.update(operation.outputs)
    return found


def _is_written(value: Value) -> bool:
    """Whether a value without a maker is written in the code, not given to the model."""
    return value.record.role == "input" and not value.record.name


def _users(judgement: Judgement, operation: Operation) -> list[Operation]:
    """The reference's operations that take a value of a candidate's operation."""
    found: dict[Operation, None] = {}
    for value in operation.inputs:
        if not judgement.is_right(value):
            continue
        if is_telling(value) or _is_input(value):
            found.update(dict.fromkeys(users_of(judgement.partners(value))))
    return list(found)


def _is_input(value: Value, depth: int = 4) -> bool:
    """Whether a value is given to the model or the loss, in any shape."""
    maker = value.maker
    if maker is None:
        return value.record.role == "input" and bool(value.record.name)
    if maker.kind not in MOVES or depth <= 0 or not maker.inputs:
        return False
    return _is_input(maker.inputs[0], depth - 1)


def _corresponds(judgement: Judgement, operation: Operation, other: Operation) -> bool:
    """Whether two operations are of one kind and make the same of the same."""
    if _kind(operation) != _kind(other):
        return False
    if operation.kind in _FUSED:  # of which one side computes a part before, so that only the end tells
        return not judgement.wrong_outputs()
    if judgement.makes_wrong(operation) or not judgement.same_inputs(operation, other):
        return False
    made, due = operation.outputs[0], other.outputs[0]
    if made.digest is None:
        return False
    return made.digest == due.digest or due in judgement.partners(made)


def _kind(operation: Operation) -> str:
    return _OPERATORS.get(operation.kind, operation.kind)


class _Natively:
    """The constants of a side's operations, those left out that its native run has otherwise."""

    def __init__(self, graph: Graph, native: Graph | None) -> None:
        self._numbers: dict[int, int] = {}
        self._operations: dict[int, Operation] = {}
        if native is None:
            return
        self._operations = {o.number: o for o in native.operations}
        if native is not graph:
            self._numbers = graph.same_operations(native)

    def constants(self, operation: Operation) -> dict[str, Any]:
        found = of_operation(operation)
        native = self._operations.get(self._numbers.get(operation.number, -1))
        if native is None:
            return found
        again = of_operation(native)
        return {name: value for name, value in found.items() if name in again and _is_one(name, value, again[name])}


def of_operation(operation: Operation) -> dict[str, Any]:
    """The constants of an operation by common names, its framework's defaults among them."""
    if operation.kind in _OPERATORS:
        number = _operand(operation)
        if number is None:
            return {}
        return {FILLED if operation.kind == "where" else OPERAND: _bound(operation, number)}
    given = {common_argument(name): value for name, value in operation.arguments.items()}
    defaults = _defaults(operation.op)
    if given.keys() <= defaults.keys():
        return {**defaults, **given}
    return given  # the kernel's names are not the function's


def _operand(operation: Operation) -> float | None:
    """The one number that an operator takes beside tensors; None without it, or of several."""
    numbers = [value for name, value in operation.arguments.items() if name in _OPERAND_NAMES and is_number(value)]
    numbers += written_numbers(operation)
    return numbers[0] if len(numbers) == 1 else None


def written_numbers(operation: Operation) -> list[float]:
    """The numbers that operands of an operation are written or filled with."""
    found: list[float] = []
    for value in operation.inputs:
        number = written_number(value)
        if number is not None:
            found.append(number)
    return found


def _bound(operation: Operation, number: float) -> float:
    """The number of a comparison; of whole numbers, the whole number that divides them alike."""
    round_to = _BOUNDS.get(_kind(operation))
    if round_to is None or not math.isfinite(number):
        return number
    is_whole = all(v.record.dtype.startswith(("int", "uint", "bool")) for v in operation.inputs[:1])
    return round_to(number) if is_whole else number


@cache
def _defaults(op: str) -> dict[str, Any]:
    """The defaults of a framework's function of an operation's name."""
    parts = op.split(".")
    framework, name = ("torch", parts[1]) if len(parts) > 1 else ("paddle", op)
    table = stored(framework)
    for known in (f"{framework}.nn.functional.{name}", f"{framework}.{name}"):
        if known in table:
            return {common_argument(each.name): _default_value(each.default) for each in table.signature(known).parameters}
    return {}


def _default_value(default: str | None) -> Any:
    """The value of a written default; None where there is none, or it is not known."""
    return None if default in (None, "...") else literal(default)


def written_number(value: Value, depth: int = 4) -> float | None:
    """The number that an operand is written or filled with; None for other values."""
    if not value.is_constant or value.record.dtype == "bool":
        return None
    if value.digest is None or value.digest.count(",") != 1:
        return None
    maker = value.maker
    if maker is None:
        written = _is_written(value)
    elif maker.kind in MOVES and maker.inputs and depth:
        written = written_number(maker.inputs[0], depth - 1) is not None
    else:
        written = maker.kind in ("fill", "scalar_tensor")
    return digests.numbers(value.digest)[1] if written else None


def _different(candidate: dict[str, Any], reference: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The constants that both have with other values."""
    found: dict[str, tuple[Any, Any]] = {}
    for name, value in candidate.items():
        if name not in reference:
            continue
        other = reference[name]
        if not _is_compared(name, value, other) or _is_one(name, value, other):
            continue
        if is_limit(value) and is_limit(other):
            continue
        found[name] = value, other
    return found


def is_limit(value: Any) -> bool:
    """Whether a number is one of an element type's: it follows the precision of a run."""
    if not is_number(value):
        return False
    return any(math.isclose(abs(value), limit, rel_tol=_SAME) for limit in _LIMITS)


def _is_compared(name: str, one: Any, other: Any) -> bool:
    """Whether a constant is one whose values are held against each other."""
    if name in _CHOICES:
        return isinstance(one, type(other)) and not isinstance(one, (list, tuple))
    if name in _LEFT_OUT or not is_number(one) or not is_number(other):
        return False
    if name in _NUMBERS:
        return True
    return isinstance(one, float) or isinstance(other, float)


def _is_one(name: str, one: Any, other: Any) -> bool:
    """Whether two constants say the same."""
    if not is_number(one) or not is_number(other):
        return bool(one == other)
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    if name == FILLED and min(abs(one), abs(other)) >= _MASKING:
        return bool((one < 0) == (other < 0))
    return math.isclose(one, other, rel_tol=_SAME)
