"""The line that made a table, an index or a mask which the candidate computes of numbers alone, other than the reference does."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from paralign.adapters._kinds import MOVES
from paralign.capture import digest as digests
from paralign.locate.arrays import apart, same
from paralign.locate.matching import is_telling
from paralign.locate.sample import LEAST, Step, Way
from paralign.locate.slices import Slices

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from paralign.capture import Capture
    from paralign.locate.arrays import Array
    from paralign.locate.graph import Operation, Value
    from paralign.locate.replay import Guilt

#: digests up to this distance are those of one value, stored in one precision or another
EQUAL = 1e-6

#: axes up to which their orders are tried
AXES = 4

#: a value this near to one of the reference, by its elements in order of size, stands for it
RESEMBLING = 0.5


def given(guilt: Guilt, *operations: Operation) -> list[str]:
    """Digests of what operations at fault take that is neither computed, nor an input, nor a parameter."""
    found: dict[str, None] = {}
    todo = [value for taker in operations for value in taker.inputs]
    seen: set[Value] = set()
    while todo:
        value = todo.pop(0)
        if value in seen:
            continue
        seen.add(value)
        if value.maker is not None:  # as it was before it was moved, or by what it came in another order
            todo += value.maker.inputs if value.maker.kind in MOVES or guilt.judgement.disordered(value) else []
        elif _is_number(value):
            found[value.digest or digests.EMPTY] = None
    return list(found)


def _is_number(value: Value) -> bool:
    """Whether a value was neither computed by what was watched, nor is it an input or a parameter."""
    unnamed = value.record.role == "buffer" or (value.record.role == "input" and not value.record.name)
    return value.maker is None and value.digest is not None and unnamed


def of_region(guilt: Guilt, numbers: Callable[[], Sequence[Array]]) -> Operation | None:
    """The first operation of a region that makes, of numbers alone, what the reference has nowhere; None where nothing tells.

    Args:
        guilt: a region at fault.
        numbers: asks for what the reference makes of numbers alone.
    """
    judgement, region = guilt.judgement, guilt.trial.region
    bare: set[Value] = set()
    first: list[Operation] = []
    for operation in region:
        if all(v in bare or _is_number(v) or (judgement.is_right(v) and not is_telling(v)) for v in operation.inputs):
            bare.update(operation.outputs)
            first.append(operation)
    computing = [o for o in first if o.kind not in MOVES]
    told = guilt.slices is not None and guilt.slices.first_wrong(judgement, region) is not None
    return None if told or len(computing) <= 1 else Slices(numbers()).first_wrong(judgement, first)


def culprit(reference: Capture, candidate: Capture, wanted: Sequence[str], *, certain: bool = True) -> str | None:
    """The line of the candidate that makes, of right values, what the reference has not, on the way to one of the values wanted.

    Of several that the reference lacks, the one that resembles a value of the reference most is at fault: others may only be another
    way to the same result. None where all of them are the reference's, or nothing is known of how they were made.

    Args:
        reference: recorded by the task ``constants``.
        candidate: the same.
        wanted: digests of values that operations of the candidate take.
        certain: one of them is known to be at fault, whether it resembles anything or not.
    """
    ways = Way.read(reference, ""), Way.read(candidate, "")
    pool = values(reference)
    found: list[tuple[float, Step]] = []
    for digest in wanted:
        alike = [s for s in ways[1].steps if digests.distance(s.record.digest or digests.EMPTY, digest) <= EQUAL]
        if alike and not _is_right(ways[0], pool, alike[-1]):
            found.append((_nearest(pool, alike[-1].value), alike[-1]))
    far, step = min(found, key=lambda item: item[0], default=(np.inf, None))
    return _first_wrong(ways, pool, step).record.source if step is not None and (certain or far <= RESEMBLING) else None


def values(capture: Capture) -> list[Array]:
    """All that was recorded by the task ``constants``."""
    way = Way.read(capture, "")
    return [step.value for step in way.steps] + [value for value, _ in way.leaves.values()]


def _nearest(pool: Sequence[Array], value: Array) -> float:
    """How far the nearest of some values is from one, by their elements in order of size; infinite where none has as many."""
    ordered = np.sort(value, axis=None)
    return min((apart(np.sort(other, axis=None), ordered) for other in pool if other.size == ordered.size), default=np.inf)


def _first_wrong(ways: tuple[Way, Way], pool: Sequence[Array], step: Step) -> Step:
    """Go back from a wrong step through wrong inputs to one that is made of right ones.

    Where nothing on its way is the reference's, the reference makes it in another way, and the last step is as good as any.
    """
    seen: set[int] = set()
    if not any(s.telling and _is_right(ways[0], pool, s) for s in _behind(ways[1], step)):
        return step
    while True:
        seen.add(step.number)
        before = [s for s in _made_of(ways[1], step) if s.number not in seen]
        wrong = [s for s in before if not _is_right(ways[0], pool, s) and not _is_filled(ways[1], pool, s)]
        if not wrong:
            return step
        step = max(wrong, key=lambda s: (s.value.size, s.number))


def _behind(way: Way, step: Step) -> list[Step]:
    """All steps on the way to one."""
    found: dict[int, Step] = {}
    todo = list(step.inputs)
    while todo:
        held = way.steps[todo.pop()]
        todo += held.inputs if held.number not in found else ()
        found[held.number] = held
    return list(found.values())


def _made_of(way: Way, step: Step) -> list[Step]:
    """What a step was made of; few numbers, which prove nothing, are looked through as well."""
    found: dict[int, Step] = {}
    todo = list(step.inputs)
    while todo:
        held = way.steps[todo.pop()]
        if held.number not in found:
            found[held.number] = held
            todo += held.inputs if held.value.size < LEAST and not held.telling else ()
    return list(found.values())


def _equal(value: Array, other: Array) -> bool:
    """Whether two arrays hold the same; of other shapes, with their axes in some other order."""
    if same(value, other):
        return True
    if value.shape == other.shape or sorted(value.shape) != sorted(other.shape) or value.ndim > AXES:
        return False
    orders = (axes for axes in permutations(range(value.ndim)) if tuple(value.shape[a] for a in axes) == other.shape)
    return any(same(value.transpose(axes), other) for axes in orders)


def _is_right(way: Way, pool: Sequence[Array], step: Step) -> bool:
    """Whether the reference has a step's values, or nothing to hold them against.

    Few numbers may be anything's: they are wrong where the reference has a variable of that name, with other values.
    """
    if step.value.size < LEAST and not step.telling:
        namesakes = [s for s in way.steps if s.record.op == step.record.op and s.value.shape == step.value.shape]
        return not namesakes or any(same(s.value, step.value) for s in namesakes)
    return not step.telling or any(_equal(value, step.value) or _is_part(value, step.value) for value in pool)


def _is_filled(way: Way, pool: Sequence[Array], step: Step) -> bool:
    """Whether a step fills a part of an array with what a value of the reference has there."""
    for before in (way.steps[number].value for number in step.inputs):
        changed = before != step.value if before.shape == step.value.shape else None
        if changed is not None and changed.any() and not changed.all():
            return any(other.shape == step.value.shape and same(other[changed], step.value[changed]) for other in pool)
    return False


def _is_part(whole: Array, part: Array) -> bool:
    """Whether an array is a row, a column or another slice of one along one axis."""
    for axis in range(whole.ndim if whole.ndim > part.ndim else 0):
        rows = np.moveaxis(whole, axis, 0)
        if rows[:1].size == part.size and any(same(row, part.reshape(row.shape)) for row in rows):
            return True
    return False
