"""What may happen to a tensor on its way, written as text to store and edit.

Steps are joined by `` then `` and done from left to right; None leaves a tensor as it is.

=====================  ==================================================================================================
``transpose(1, 0)``    the axes in another order, as in numpy
``reshape(4, 1)``      another shape of as many elements
``rows(0, 64)``        only these indices of the first axis
``columns(0, 64)``     only these indices of the second axis
``heads(12, 3, 1)``    the first axis seen as 12 heads of 3 slots of rows: only slot 1 of every head
``heads(4, 6, 0, 4)``  the same of 4 heads of 6 slots: only slots 0 to 3
``parts(1, 0, 2)``     the first axis in as many equal parts, put in this order
=====================  ==================================================================================================

``transpose``, ``reshape`` and ``parts`` keep every element; the others take some. Every step can be undone bit by bit:
:func:`put` writes a value back to where :func:`take` found it.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from paralign.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Array = np.ndarray[Any, Any]
    Shape = tuple[int, ...]

_FORM = re.compile(r"(transpose|reshape|rows|columns|heads|parts)\(\s*(\d{1,12}(?:\s*,\s*\d{1,12})*)?\s*\)")
_JOINT = " then "
_ENDS = ("from", "to")
_KEEPING = frozenset({"transpose", "reshape", "parts"})


class Step(NamedTuple):
    """One step of a transform."""

    name: str
    numbers: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.numbers))})"


def transpose(axes: Sequence[int]) -> str | None:
    """The text for a transposition; None where it moves nothing.

    >>> transpose([1, 0]), transpose([0, 1, 2])
    ('transpose(1, 0)', None)
    """
    return None if list(axes) == sorted(axes) else str(Step("transpose", tuple(axes)))


@lru_cache(maxsize=10_000)
def steps(transform: str | None) -> tuple[Step, ...]:
    """The steps of a text, checked one by one; none for None.

    Raises:
        UsageError: the text is no transform.

    >>> steps("transpose(1, 0) then rows(0, 2)")
    (Step(name='transpose', numbers=(1, 0)), Step(name='rows', numbers=(0, 2)))
    """
    if transform is None:
        return ()
    found = []
    for text in transform.split(_JOINT):
        form = _FORM.fullmatch(text)
        step = Step(form.group(1), tuple(int(n) for n in (form.group(2) or "").split(",") if n)) if form else None
        if step is None or not _VALID[step.name](step.numbers):
            raise UsageError(
                f"{transform!r} is no transform of weights",
                hint="write it as transpose(1, 0), each axis once, or leave it out; "
                "reshape, rows, columns, heads and parts are the others, joined by ' then '",
            )
        found.append(step)
    return tuple(found)


@lru_cache(maxsize=10_000)
def compose(*transforms: str | None) -> str | None:
    """One text for several done one after the other; transpositions that meet become one.

    >>> compose("transpose(1, 0)", None, "transpose(1, 0)"), compose("rows(0, 2)", "transpose(1, 0)")
    (None, 'rows(0, 2) then transpose(1, 0)')
    """
    done: list[Step] = []
    for step in (s for transform in transforms for s in steps(transform)):
        after = step
        if step.name == "transpose" and done and done[-1].name == "transpose" and len(done[-1].numbers) == len(step.numbers):
            before = done.pop().numbers
            after = Step("transpose", tuple(before[axis] for axis in step.numbers))
        if after.name != "transpose" or list(after.numbers) != sorted(after.numbers):
            done.append(after)
    return _JOINT.join(map(str, done)) or None


@lru_cache(maxsize=10_000)
def undone(transform: str | None, shape: tuple[int, ...]) -> str | None:
    """The text that leads back from a transform that keeps every element.

    ``shape`` is the one that it starts from.

    Raises:
        UsageError: the transform takes a part, or does not fit the shape.

    >>> undone("transpose(1, 2, 0)", (2, 3, 4)), undone("reshape(6)", (2, 3))
    ('transpose(2, 0, 1)', 'reshape(2, 3)')
    """
    back, at = [], shape
    for step in steps(transform):
        if step.name not in _KEEPING:
            raise UsageError(f"{transform!r} takes a part: it has no way back by itself", hint="put the part back with put")
        back.append(str(Step("reshape", at) if step.name == "reshape" else Step(step.name, inverse(step.numbers))))
        at = _after(step, at)
    return compose(*reversed(back))


def keeps(transform: str | None) -> bool:
    """Whether every element is kept.

    >>> keeps("transpose(1, 0)"), keeps("rows(0, 2)")
    (True, False)
    """
    return all(step.name in _KEEPING for step in steps(transform))


def reached(transform: str | None, shape: Sequence[int]) -> tuple[int, ...]:
    """The shape after a transform.

    Raises:
        UsageError: the transform does not fit the shape.

    >>> reached("transpose(1, 0) then rows(1, 3)", (5, 6))
    (2, 5)
    """
    at = tuple(shape)
    for step in steps(transform):
        at = _after(step, at)
    return at


def take(transform: str | None, value: Array) -> Array:
    """What a transform makes of an array; a view where numpy can give one.

    Raises:
        UsageError: the transform does not fit the array.
    """
    for step in steps(transform):
        _after(step, value.shape)
        value = _step(step, value)
    return value


def put(transform: str | None, target: Array, value: Array) -> None:
    """Write ``value`` to where :func:`take` finds it in ``target``.

    Raises:
        UsageError: the transform does not fit the target, or the value not the place.
    """
    if value.shape != reached(transform, target.shape):
        raise UsageError(
            f"a value of shape {value.shape} does not fit {transform or 'the whole'} of {target.shape}",
            hint="make the plan again from the records that the values belong to",
        )
    _put(steps(transform), target, value)


def _put(todo: tuple[Step, ...], target: Array, value: Array) -> None:
    if not todo:
        target[...] = value
        return
    first, *rest = todo
    if first.name == "reshape":
        inner = np.empty(first.numbers, target.dtype)
        if any(step.name not in _KEEPING for step in rest):
            inner[...] = target.reshape(first.numbers)
        _put(tuple(rest), inner, value)
        target[...] = inner.reshape(target.shape)
    elif first.name == "heads":
        slots = _slots(first, target)
        inner = np.empty(_after(first, target.shape), target.dtype)
        if any(step.name not in _KEEPING for step in rest):
            inner[...] = slots.reshape(inner.shape)
        _put(tuple(rest), inner, value)
        slots[...] = inner.reshape(slots.shape)
    elif first.name == "parts":
        inner = _step(first, target)  # a copy
        _put(tuple(rest), inner, value)
        target[...] = _step(Step("parts", inverse(first.numbers)), inner)
    else:
        _put(tuple(rest), _step(first, target), value)


def _step(step: Step, value: Array) -> Array:
    numbers = step.numbers
    done: Array
    if step.name == "transpose":
        done = value.transpose(numbers)
    elif step.name == "reshape":
        done = value.reshape(numbers)
    elif step.name == "rows":
        done = value[numbers[0] : numbers[1]]
    elif step.name == "columns":
        done = value[:, numbers[0] : numbers[1]]
    elif step.name == "parts":
        apart = value.reshape(len(numbers), value.shape[0] // len(numbers), *value.shape[1:])
        done = apart[list(numbers)].reshape(value.shape)
    else:
        done = _slots(step, value).reshape(_after(step, value.shape))
    return done


def _slots(step: Step, value: Array) -> Array:
    """The chosen slots of every head: a view of shape (heads, chosen, rows, …)."""
    heads, slots, first = step.numbers[:3]
    last = (*step.numbers, first + 1)[3]
    apart = value.reshape(heads, slots, value.shape[0] // (heads * slots), *value.shape[1:])  # splitting an axis never copies
    return apart[:, first:last]


def _after(step: Step, shape: Sequence[int]) -> Shape:
    numbers, shape = step.numbers, tuple(shape)
    if step.name == "transpose" and len(numbers) != len(shape):
        raise UsageError(
            f"a transposition of {len(numbers)} axes does not fit a tensor of {len(shape)}",
            hint="take the transform that the plan gives for this tensor",
        )
    fits, after = True, shape
    if step.name == "transpose":
        after = tuple(shape[axis] for axis in numbers)
    elif step.name == "reshape":
        fits, after = math.prod(numbers) == math.prod(shape), numbers
    elif step.name == "rows":
        fits = len(shape) >= 1 and numbers[1] <= shape[0]
        after = (numbers[1] - numbers[0], *shape[1:])
    elif step.name == "columns":
        fits = len(shape) > 1 and numbers[1] <= shape[1]
        after = (*shape[:1], numbers[1] - numbers[0], *shape[2:])
    elif step.name == "parts":
        fits = len(shape) >= 1 and shape[0] % len(numbers) == 0
    else:
        heads, slots, first = numbers[:3]
        last = (*numbers, first + 1)[3]
        fits = len(shape) >= 1 and shape[0] % (heads * slots) == 0
        after = (shape[0] // slots * (last - first), *shape[1:]) if fits else shape
    if not fits:
        raise UsageError(f"{step} does not fit a tensor of shape {shape}", hint="take the transform that the plan gives for this tensor")
    return after


def _range(numbers: Sequence[int]) -> bool:
    return len(numbers) == len(_ENDS) and numbers[0] < numbers[1]


def _heads(numbers: Sequence[int]) -> bool:
    if len(numbers) not in (3, 4) or numbers[0] < 1:
        return False
    first = numbers[2]
    return first < (*numbers, first + 1)[3] <= numbers[1]


def _order(numbers: Sequence[int]) -> bool:
    return bool(numbers) and sorted(numbers) == list(range(len(numbers)))


_VALID: dict[str, Callable[[Sequence[int]], bool]] = {
    "transpose": _order,
    "parts": _order,
    "reshape": lambda numbers: 0 not in numbers,
    "rows": _range,
    "columns": _range,
    "heads": _heads,
}


def inverse(axes: Sequence[int]) -> tuple[int, ...]:
    """The axes that undo a transposition.

    >>> inverse((1, 2, 0))
    (2, 0, 1)
    """
    return tuple(sorted(range(len(axes)), key=axes.__getitem__))


def permuted(shape: Sequence[int], axes: Sequence[int] | None) -> tuple[int, ...]:
    """The shape after a transposition; a shape of another rank is returned as it is.

    >>> permuted((3, 4), (1, 0))
    (4, 3)
    """
    if axes is None or len(axes) != len(shape):
        return tuple(shape)
    return tuple(shape[axis] for axis in axes)
