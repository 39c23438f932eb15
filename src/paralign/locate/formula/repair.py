"""Which single change of a formula makes its result right, tried on recorded values.

Of a formula that stands for one operation of the reference, no step has a counterpart that could be compared. What can be asked is
which step, done otherwise, leads to the reference's result.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.locate.formula.from_record import step_of
from paralign.locate.formula.numpy_operations import ALONG, BINARY, REDUCED, SAME, UNARY, Step, apart, is_done, same
from paralign.locate.reaching import reached
from paralign.locate.runs.traverse import made_by, makers
from paralign.locate.source.statements import alias_line, bound_name, function_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from paralign.locate.formula.numpy_operations import Operand
    from paralign.locate.runs.dataflow import Graph, Operation, Value

#: operations of a formula that are looked at, and elements of all of its values
MOST, LARGEST = 64, 2_000_000

#: elements that may be computed for one formula
WORK = 1_000_000_000

#: an error that falls to this share of what it was has vanished; below the second it is rounding
FALL, ROUNDING = 1e-3, 3e-8

#: functions that stand in for each other
_ALIKE: tuple[frozenset[str], ...] = (
    frozenset({"exp", "expm1", "log", "log1p"}),
    frozenset({"abs", "negative", "sign", "relu"}),
    frozenset({"sqrt", "rsqrt", "reciprocal"}),
    frozenset({"sigmoid", "log_sigmoid", "tanh", "softplus", "silu", "relu"}),
    frozenset({"sin", "cos"}),
    frozenset({"floor", "round", "ceil"}),
    frozenset({"real", "imag"}),
    frozenset({"triu", "tril"}),
    frozenset({"add", "subtract", "multiply", "divide", "power"}),
    frozenset({"maximum", "minimum"}),
    frozenset({"gt", "ge", "lt", "le", "eq", "ne"}),
    frozenset({"logical_and", "logical_or"}),
    frozenset({"mean", "sum", "maximum", "minimum", "prod", "logsumexp"}),
    frozenset({"softmax", "log_softmax", "sigmoid", "log_sigmoid"}),
)

#: operators whose operands are exchanged by mistake
_ORDERED = ("subtract", "divide", "power", "matmul", "cross_entropy", "complex", "atan2", "remainder", "outer", "einsum")

#: what numbers are taken for by mistake, as factors
_FACTORS = (-1.0, 0.5, 2.0, 0.1, 10.0)

#: what is left out after a step by mistake, with another value
_JOINED = ("add", "subtract", "multiply", "divide")

#: what joining with a value once more undoes
_UNDOES = {"divide": "multiply", "subtract": "add", "multiply": "divide", "add": "subtract"}

#: what is said of a number that is joined with a value
_FIRST = {"add": "plus {} first", "subtract": "minus {} first", "multiply": "times {} first", "divide": "divided by {} first"}

#: the same, of what an operation makes
_AFTER = {"add": "plus {} after {}", "subtract": "minus {} after {}", "multiply": "times {} after {}", "divide": "divided by {} after {}"}

#: kinds of operations that count positions
_COUNTING = frozenset({"arange", "cumsum", "argmax", "argmin", "argsort", "nonzero", "searchsorted", "one_hot"})

#: functions of a value that are left out by mistake
_FUNCTIONS = ("exp", "log", "abs", "sqrt", "negative", "sigmoid", "relu")

#: how far-fetched changes are: another function or operator; something left out; another number, which the reference has or has not;
#: another value; something more
OTHER, LESS, KNOWN, NUMBER, VALUE, MORE = range(6)


@dataclass(frozen=True)
class Repair:
    """A change that makes the result right: its operation, line, words and cost.

    ``number`` is one that stands in several lines, and is another in all of them; ``taken`` the number that is changed, wherever it stands.
    """

    operation: Operation
    line: str
    what: str
    cost: int
    number: float | None = None
    taken: float | None = None


@dataclass(frozen=True)
class _Change:
    """Another step in the place of one, or a further step on the value ``after``.

    ``more`` are steps that are changed with it: where one number stands several times, or another is what it leaves of one. ``taken``
    is the number that is another now. ``elsewhere`` is the same change in further calls of the same line; ``local``: it takes a value
    of its own call, so that there is no same change in another one.
    """

    cost: int
    what: str
    step: Step
    after: Value | None = None
    more: tuple[Step, ...] = ()
    number: float | None = None
    taken: float | None = None
    elsewhere: tuple[_Change, ...] = ()
    local: bool = False

    def all(self) -> tuple[_Change, ...]:
        """What is changed, in every call."""
        return (self, *self.elsewhere)


class Formula:
    """Some operations of the candidate, to be done again with something changed.

    Args:
        operations: in the order in which they were done.
        arrays: the values that they take and make, whole.
        numbers: those that the reference has on the same way.
        beside: further values that could be meant where another one is taken; in ``arrays`` too.
    """

    def __init__(
        self, operations: Sequence[Operation], arrays: Mapping[Value, Any], numbers: Iterable[float] = (), beside: Iterable[Value] = ()
    ) -> None:
        self.arrays, self.numbers = arrays, sorted(set(numbers))
        self._operations = operations
        self._steps: dict[Operation, Step] = {}
        for operation in operations:
            step = step_of(operation)
            if step is not None and all(v in arrays for v in (*step.values(), step.made)):
                self._steps[operation] = step
        self._done_alike = {o for o, step in self._steps.items() if is_done(step, arrays)}
        known: dict[Value, None] = {}
        for operation in operations:
            known.update(dict.fromkeys((*operation.inputs, *operation.outputs)))
        known.update(dict.fromkeys(beside))
        self._values = [v for v in known if v in arrays and v.size > 1]
        self._work, self._near = WORK, SAME

    def repairs(self, value: Value, due: Any) -> list[Repair]:
        """The least far-fetched changes of one step that make of ``value`` what is ``due``."""
        found: list[Repair] = []
        far = apart(self.arrays[value], due) if value in self.arrays else 0.0
        if far <= ROUNDING:
            return []
        self._near = min(SAME, max(FALL * far, ROUNDING))
        for change in sorted(self._changes(), key=lambda each: (each.cost, "`" not in each.what)):  # one that names what it takes says more
            if self._work <= 0 or (found and change.cost > found[0].cost):
                break
            if self._leads_to(change, value, due) and not _is_told(change, found):
                found.append(self._repair(change))
        return found

    def _repair(self, change: _Change) -> Repair:
        """A change that makes the result right, in the words of a report."""
        undone = self._undone(change)
        if undone is not None:
            return Repair(
                undone, undone.source or "", f"the step {undone.kind} taken back, which comes too early or once too often", change.cost
            )
        alone = len({step.operation.source for step in (change.step, *change.more)}) == 1
        number = None if alone else change.number
        return Repair(change.step.operation, self._line(change), change.what, change.cost, number, change.taken)

    def _undone(self, change: _Change) -> Operation | None:
        """The step that a further one takes back; None unless one line alone does it."""
        step = change.step
        if change.after is None or step.name not in _UNDOES or step.operands[:1] != (change.after,):
            return None
        other = step.operands[-1]
        if isinstance(other, float):
            return None
        done = [o for o in self._operations if o.kind == _UNDOES[step.name] and other in o.inputs and _leads(o, change.after)]
        return done[0] if len({o.source for o in done}) == 1 else None

    def _line(self, change: _Change) -> str:
        """The line to look at: of a further step on a given value, where that got its name."""
        source = change.step.operation.source or ""
        if change.after is not None and change.after.maker is None:
            return alias_line(source) or source
        return source

    def _leads_to(self, change: _Change, value: Value, due: Any) -> bool:
        """Whether the value is what is due with one change; False if that cannot be computed."""
        changed: dict[Operation, Step] = {}
        further: dict[Value, Step] = {}
        for part in change.all():
            if part.after is not None:
                further[part.after] = part.step
            else:
                changed.update({step.operation: step for step in (part.step, *part.more)})
        new: dict[Value, Any] = {}
        try:
            for after, step in further.items():
                if after.maker not in self._operations:
                    new[after] = self._done(step, new)
            for operation in self._operations:
                if not self._goes_on(operation, changed.get(operation), new, value):
                    return False
                for made in operation.outputs:
                    if made in further:
                        new[made] = self._done(further[made], new)
        except (ValueError, TypeError, IndexError, KeyError):
            return False
        return value in new and same(new[value], due, self._near)

    def _goes_on(self, operation: Operation, step: Step | None, new: dict[Value, Any], value: Value) -> bool:
        """Do an operation again if it is changed or takes what is new; False if that is in vain.

        In vain is a change that changes nothing, and one behind which something on the way to the value cannot be done.
        """
        if step is not None:
            new[step.made] = self._done(step, new)
            return not same(new[step.made], self.arrays[step.made], 0.0)
        if new.keys().isdisjoint(operation.inputs):
            return True
        if operation not in self._done_alike:
            return not _leads(operation, value)
        again = self._steps[operation]
        new[again.made] = self._done(again, new)
        return True

    def _operand(self, operand: Operand, new: Mapping[Value, Any]) -> Any:
        """A number, or the array of a value, the new one where there is one."""
        if isinstance(operand, float):
            return operand
        return new[operand] if operand in new else self.arrays[operand]

    def _done(self, step: Step, new: Mapping[Value, Any]) -> Any:
        given = [self._operand(each, new) for each in step.operands]
        made = step.done(given)
        self._work -= np.size(made) + sum(np.size(each) for each in given)
        return made

    def _changes(self) -> list[_Change]:
        """Every change, alone, and in all calls of its line."""
        alone = [*self._of_steps(), *self._of_more()]
        return [*alone, *self._in_all_calls(alone)]

    def _in_all_calls(self, alone: list[_Change]) -> Iterator[_Change]:
        """The changes of a line that ran several times, as in a helper, in all of its runs."""
        runs: dict[tuple[str | None, str], list[Operation]] = {}
        for operation in self._operations:
            runs.setdefault((operation.source, operation.op), []).append(operation)
        named: dict[Operation, dict[tuple[str, int], _Change]] = {}
        for change in alone:
            if change.local or change.more or len(runs[change.step.operation.source, change.step.operation.op]) == 1:
                continue
            own = named.setdefault(change.step.operation, {})
            own[change.what, sum(what == change.what for what, _ in own)] = change
        for operations in runs.values():
            for together in _every_so_many(operations):
                first = named.get(together[0], {})
                for key, change in first.items():
                    others = [named.get(o, {}).get(key) for o in together[1:]]
                    if all(others):
                        yield replace(change, elsewhere=tuple(other for other in others if other is not None))

    def _of_steps(self) -> Iterator[_Change]:
        for operation, step in self._steps.items():
            if step.name in ("view", "cast", "same", "transpose"):
                continue
            yield from _of_function(step)
            yield from _of_axes(step)
            yield from _of_operands(step)
            yield from _of_divisor(step)
            yield from _of_positions(step)
            if operation in self._done_alike:
                yield from self._of_numbers(step)
                yield from self._of_values(step)

    def _of_numbers(self, step: Step) -> Iterator[_Change]:
        """Another number in the place of one that is taken, alone or wherever it stands."""
        for place, operand in enumerate(step.operands):
            old = operand if isinstance(operand, float) else _constant(operand, self.arrays)
            if old is None:
                continue
            others = {old * factor for factor in _FACTORS} | {old + 1, old - 1, 1 - old} | self._scaled(old)
            if old:
                others.add(1 / old)
            for number in sorted((others | set(self.numbers)) - {old}):
                cost = KNOWN if number in self.numbers and old not in self.numbers else NUMBER
                what, changed = f"{number:g} in place of {old:g}", _with(step, place, number)
                yield _Change(cost, what, changed, taken=old)
                more = self._alike(step, place, old, number)
                if more:
                    yield _Change(cost, f"{what} wherever it stands so", changed, None, more, old, taken=old)
            yield from self._of_weights(step, place, old)

    def _scaled(self, number: float) -> set[float]:
        """A number times or divided by one that the reference has: half a threshold for a half."""
        telling = [known for known in self.numbers if known and abs(known) != 1]
        return {number * known for known in telling} | {number / known for known in telling}

    def _of_weights(self, step: Step, place: int, old: float) -> Iterator[_Change]:
        """Another weight of one term, and what that leaves of one for another term."""
        if step.name != "multiply":
            return
        weights = [number for number in self.numbers if 0 < number < 1]
        for operation, other in self._steps.items():
            if operation not in self._done_alike or other is step or other.name != "multiply":
                continue
            rest = _number(other, place)
            if not rest or abs(abs(rest) + abs(old) - 1) > SAME:
                continue
            for number in weights:
                changed, left = _with(step, place, math.copysign(number, old)), _with(other, place, math.copysign(1 - number, rest))
                yield _Change(NUMBER, f"{number:g} in place of {abs(old):g}", changed, None, (left,), abs(old), taken=abs(old))

    def _alike(self, step: Step, place: int, old: float, number: float) -> tuple[Step, ...]:
        """The further steps with the same number, changed alike; none for those before it."""
        alike: list[Step] = []
        for operation, other in self._steps.items():
            if operation not in self._done_alike or other.name != step.name:
                continue
            if _number(other, place) == old:
                alike.append(other)
        if alike[:1] != [step]:
            return ()
        return tuple(_with(other, place, number) for other in alike if other is not step)

    def _of_values(self, step: Step) -> Iterator[_Change]:
        """Another value in the place of one that is taken."""
        for place, operand in enumerate(step.operands):
            if isinstance(operand, float):
                continue
            for other in self._before(step.operation):
                if other is operand or (other.shape, other.record.dtype) != (operand.shape, operand.record.dtype):
                    continue
                what = f"`{taken}` in place of `{had}`" if (taken := _name(other)) and (had := _name(operand)) else "another value is taken"
                yield _Change(VALUE, what, _with(step, place, other), local=True)

    def _of_more(self) -> Iterator[_Change]:
        """A step that is missing: a value joined with another one, or a function of it."""
        for value in self._values:
            users = [o for o in self._operations if value in o.inputs]
            maker = value.maker if value.maker in self._operations else None
            if users or maker is not None:
                yield from self._of_joining(value, users, maker)
                yield from self._of_joined_numbers(value, maker or users[0])
                yield from _of_further_function(value, maker or users[0])

    def _of_joining(self, value: Value, users: list[Operation], maker: Operation | None) -> Iterator[_Change]:
        """A value joined with another one before it is used."""
        for other in self._before(users[0]) if users else self._values:
            if other is value or not _joins(value, other):
                continue
            at = maker
            if at is None or (users and other.order > value.order):
                at = users[0]
            for name, operands in product(_JOINED, ((value, other), (other, value))):
                step = Step(at, name, operands, value.shape, value.record.dtype)
                what = f"{name} with `{joined}` first" if (joined := _name(other)) else f"{name} with another value first"
                yield _Change(MORE, what, step, value, local=True)

    def _of_joined_numbers(self, value: Value, at: Operation) -> Iterator[_Change]:
        """A value joined with a number that the reference has; positions counted from another one."""
        if not _is_float(value) and value.maker is None:
            return
        counted = at.kind in _COUNTING and value.maker is at
        numbers: set[float] = set()
        if _is_float(value):
            numbers.update(self.numbers)
        if counted:
            numbers.add(1.0)
        for name, number in product(_JOINED, sorted(numbers - {0.0})):
            step = Step(at, name, (value, number), value.shape, value.record.dtype)
            is_position = counted and number == 1.0 and name in ("add", "subtract")
            what = (_AFTER if value.maker is at else _FIRST)[name].format(f"{number:g}", at.kind)
            yield _Change(OTHER if is_position else MORE, what, step, value)

    def _before(self, operation: Operation) -> list[Value]:
        return [v for v in self._values if v.maker is None or v.order < operation.order]


def _name(value: Value) -> str:
    """The name under which the program keeps a value; '' of one that has none."""
    maker = value.maker
    if maker is None or not value.users or any(user.source == maker.source for user in value.users):
        return ""
    return bound_name(maker.source)


def _is_told(change: _Change, found: list[Repair]) -> bool:
    """Whether a repair has the same number of the operation, in all calls of the line."""
    if change.taken is None:
        return False
    return any(repair.operation is change.step.operation and repair.taken == change.taken for repair in found)


def _every_so_many(operations: list[Operation]) -> Iterator[list[Operation]]:
    """The runs of one line: all, or every second, third … where one run has several."""
    count = len(operations)
    for stride in range(1, count // 2 + 1):
        if count % stride == 0:
            yield from (operations[first::stride] for first in range(stride))


def _joins(value: Value, other: Value) -> bool:
    """Whether what is made of two values together has the shape of the first."""
    if not _is_float(value) or not _is_float(other) or len(other.shape) > len(value.shape):
        return False
    return all(n in (1, m) for n, m in zip(other.shape[::-1], value.shape[::-1], strict=False))


def _is_float(value: Value) -> bool:
    return value.record.dtype.startswith("float")


def _of_further_function(value: Value, operation: Operation) -> Iterator[_Change]:
    """A function of a value, taken before it is used."""
    if not _is_float(value):
        return
    for name in _FUNCTIONS:
        yield _Change(MORE, f"{name} of it is missing", Step(operation, name, (value,), value.shape, value.record.dtype), value)


def _of_function(step: Step) -> Iterator[_Change]:
    """Another function or operator of the same operands."""
    for group in _ALIKE:
        if step.name not in group:
            continue
        for name in sorted(group - {step.name}):
            if _fits(name, step):
                yield _Change(OTHER, f"{name} in place of {step.name}", replace(step, name=name))
    if step.name in _ORDERED and len(step.operands) > 1:
        yield _Change(OTHER, f"the operands of {step.name} exchanged", replace(step, operands=step.operands[::-1]))
    if step.name == "where":
        yield _Change(OTHER, "what is chosen exchanged", replace(step, operands=(step.operands[0], *step.operands[:0:-1])))


def _of_axes(step: Step) -> Iterator[_Change]:
    """The same along another axis, where the result keeps its shape."""
    count = len(step.shape)
    if step.name in ALONG and step.along:
        own = step.along[0]
    elif step.name == "cumsum" and count:
        own = step.settings["axis"] % count
    else:
        return
    for other in range(count):
        if other != own:
            changed = replace(step, along=(other,)) if step.name in ALONG else replace(step, settings={**step.settings, "axis": other})
            yield _Change(OTHER, f"along axis {other} in place of {own}", changed)


def _of_operands(step: Step) -> Iterator[_Change]:
    """One operand as it is, without the step; or its negative."""
    if step.name not in BINARY and step.name not in UNARY and step.name not in ALONG:
        return
    for operand in step.operands:
        if isinstance(operand, float) or operand.shape != step.shape or operand.record.dtype != step.dtype:
            continue
        yield _Change(LESS, f"the step {step.name} left out", replace(step, name="same", operands=(operand,)))
        yield _Change(LESS, f"the negative in place of {step.name}", replace(step, name="negative", operands=(operand,)))


def _of_divisor(step: Step) -> Iterator[_Change]:
    """The sum of a product, divided by the sum of one factor: a mean of what is kept."""
    if step.name not in ("mean", "sum"):
        return
    operand = step.operands[0]
    product_of = None if isinstance(operand, float) else operand.maker
    if product_of is None or product_of.kind != "multiply":
        return
    for weight in product_of.inputs:
        yield _Change(OTHER, "the mean of what is kept", replace(step, name="weighted mean", operands=(product_of.outputs[0], weight)))


def _of_positions(step: Step) -> Iterator[_Change]:
    """Another diagonal, another index, a window shifted by one; the result keeps its shape."""
    if "diagonal" in step.settings:
        own = step.settings["diagonal"]
        for other in (own - 1, own + 1):
            yield _Change(NUMBER, f"diagonal {other} in place of {own}", replace(step, settings={"diagonal": other}))
    index = step.settings.get("index") or ()
    for place, part in enumerate(index):
        for other in _shifted(part):
            changed = (*index[:place], other, *index[place + 1 :])
            yield _Change(NUMBER, f"{_written(other)} in place of {_written(part)}", replace(step, settings={"index": changed}))


def _shifted(part: Any) -> list[Any]:
    """An index, or both ends of a slice, one further and one less."""
    if type(part) is int:
        return [moved for moved in (part - 1, part + 1) if (moved < 0) == (part < 0)]  # counted from the same end
    if not isinstance(part, slice) or part.step not in (None, 1):
        return []
    if part.start is None and part.stop is None:
        return []
    start, stop = part.start or 0, part.stop
    if start < 0 or (stop is not None and stop < 0):
        return []
    steps = (1, -1) if start else (1,)
    return [slice(start + by, None if stop is None else stop + by) for by in steps]


def _written(part: Any) -> str:
    """An index as code has it."""
    if not isinstance(part, slice):
        return f"[{part}]"
    start, stop = ("" if end is None else end for end in (part.start, part.stop))
    return f"[{start}:{stop}]"


def _fits(name: str, step: Step) -> bool:
    """Whether a function can take the operands of a step."""
    if "diagonal" in step.settings:
        return True
    if len(step.operands) > 1:
        return name in BINARY
    if name in UNARY:
        return True
    if step.name in REDUCED:
        return name in REDUCED
    return name in ALONG and step.along is not None


def _with(step: Step, place: int, operand: Operand) -> Step:
    return replace(step, operands=(*step.operands[:place], operand, *step.operands[place + 1 :]))


def _constant(value: Value, arrays: Mapping[Value, Any]) -> float | None:
    """The number that a given value of one element holds."""
    if value.maker is not None or value.size != 1 or value not in arrays:
        return None
    return float(np.asarray(arrays[value]).reshape(-1)[0])


def _number(step: Step, place: int) -> float | None:
    """The number that a step takes at a place; None where there is a value."""
    operand = step.operands[place] if place < len(step.operands) else None
    return operand if isinstance(operand, float) else None


def _leads(operation: Operation, value: Value) -> bool:
    """Whether a value hangs on what an operation makes."""
    after = reached(operation.outputs, lambda v: [o for o in made_by(v.users) if o.order <= value.order])
    return value in after


def operations_of(value: Value, region: Sequence[Operation], *, called: bool = False) -> list[Operation]:
    """The operations in a region's functions that made a value, in their order.

    Args:
        value: what is looked at.
        region: some of the operations.
        called: those of functions that these functions call are taken too.
    """
    functions = _functions(region)

    def is_inside(operation: Operation) -> bool:
        lines = operation.stack if called else operation.stack[:1]
        return operation in region or not functions.isdisjoint(map(function_of, lines))

    def inside(values: Iterable[Value]) -> list[Operation]:
        return list(filter(is_inside, makers(values)))

    found: list[Operation] = []
    elements = 0
    for operation in reached(inside([value]), lambda o: inside(o.inputs), nearest_first=True):
        elements += sum(v.size for v in (*operation.inputs, *operation.outputs))
        if len(found) == MOST or elements > LARGEST:
            break
        found.append(operation)
    return sorted(found, key=lambda o: o.order)


def _functions(operations: Iterable[Operation]) -> set[tuple[str, int]]:
    """The functions that the innermost lines of some operations are in."""
    return {function_of(o.source) for o in operations if o.source is not None}


def made_beside(graph: Graph, operations: Sequence[Operation]) -> list[Value]:
    """What the same functions made besides, whether anything takes it or not."""
    functions = _functions(operations)
    others: list[Operation] = []
    for operation in graph.operations:
        if operation.source is None or operation.written:
            continue
        if function_of(operation.source) in functions:
            others.append(operation)
    return [v for o in others[-MOST:] for v in o.outputs[:1]]
