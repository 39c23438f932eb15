"""The line that made a wrong table, index or mask of numbers alone."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from paralign.adapters._kinds import MOVES
from paralign.capture import digest as digests
from paralign.locate.data.array_difference import same
from paralign.locate.data.distances import apart
from paralign.locate.data.trace import LEAST, Step, Way
from paralign.locate.runs.traverse import taken_by
from paralign.locate.source.bindings import Code
from paralign.locate.source.statements import function_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from paralign.capture import Capture
    from paralign.locate.data.array_difference import Array
    from paralign.locate.runs.dataflow import Operation, Value
    from paralign.locate.types import Guilt

#: digests up to this distance are those of one value, stored in one precision or another
EQUAL = 1e-6

#: axes up to which their orders are tried
AXES = 4

#: so many numbers in their order are hardly the same by accident, on the way to a value that the reference has not
FEW = 3

#: columns up to which it is told which of them differ
COLUMNS = 16

#: a value this near to one of the reference, by its elements in order of size, stands for it
RESEMBLING = 0.5


def given(guilt: Guilt, *operations: Operation) -> list[str]:
    """Digests of what operations take that was not computed, and is no input or parameter.

    What other operations make right values of is right.
    """
    found: dict[str, None] = {}
    todo = taken_by(operations)
    seen: set[Value] = set()
    while todo:
        value = todo.pop(0)
        if value in seen:
            continue
        seen.add(value)
        if value.maker is not None:
            if value.maker.kind in MOVES or guilt.judgement.disordered(value):
                todo += value.maker.inputs  # as it was before it was moved, or by what it came in another order
        elif _is_number(value) and not guilt.judgement.leads_right(value, operations):
            found[value.digest or digests.EMPTY] = None
    return list(found)


def _is_number(value: Value) -> bool:
    """Whether a value is neither computed under watch, nor an input or a parameter."""
    if value.maker is not None or value.digest is None:
        return False
    if value.record.role == "buffer":
        return True
    return value.record.role == "input" and not value.record.name


@np.errstate(all="ignore")
def culprit(reference: Capture, candidate: Capture, wanted: Sequence[str], *, certain: bool = True) -> str | None:
    """The candidate's line that makes, of right values, what the reference has not.

    Of several that the reference lacks, the one that resembles a value of the reference most is at fault: others may only be another
    way to the same result. One that was made first where the reference makes a table of that shape, which the candidate has nowhere,
    stands for that. None where all of them are the reference's, or nothing is known of how they were made.

    Args:
        reference: recorded by the task ``constants``.
        candidate: the same.
        wanted: digests of values that operations of the candidate take.
        certain: one of them is known to be at fault, whether it resembles anything or not.
    """
    ways = Way.read(reference, ""), Way.read(candidate, "")
    pool, own = values(reference), values(candidate)
    found: list[tuple[float, Step]] = []
    for digest in wanted:
        last = _last_alike(ways[1], digest)
        if last is None or _is_right(ways[0], pool, last):
            continue
        first = _first_wrong(ways, pool, last)
        far = _nearest(pool, last.value)
        if _stands_for_another(pool, own, first.value):
            far = min(far, RESEMBLING)
        found.append((far, first))
    if not found:
        return None
    far, step = min(found, key=lambda item: item[0])
    if certain or far <= RESEMBLING:
        return step.record.source
    return None


def _last_alike(way: Way, digest: str) -> Step | None:
    """The last step that made a value of a digest."""
    alike = [s for s in way.steps if digests.distance(s.record.digest or digests.EMPTY, digest) <= EQUAL]
    return alike[-1] if alike else None


@np.errstate(all="ignore")
def number_line(candidate: Capture, source: str, number: float) -> str | None:
    """The line from which a number came that a line reads by a name; None if not seen.

    Args:
        candidate: recorded by the task ``constants``.
        source: the line, ``file:line``.
        number: what it reads.
    """
    way = Way.read(candidate, "")
    step = _last_read(way, source, number)
    if step is None:
        return None
    while True:
        inputs = [way.steps[n] for n in step.inputs]
        before = [s for s in inputs if s.value.size <= LEAST and number in s.value]
        if not before:
            return step.record.source
        step = before[-1]


def _last_read(way: Way, source: str, number: float) -> Step | None:
    """The last step of a line's function that bound a number to a name which the line reads."""
    code = Code(source)
    names = {*code.names, *(f"self.{name}" for name in code.attributes)}
    for step in reversed(way.steps):
        if step.record.op not in names or step.value.size != 1 or step.value.item() != number:
            continue
        if function_of(str(step.record.source)) == function_of(source):
            return step
    return None


@np.errstate(all="ignore")
def values(capture: Capture) -> list[Array]:
    """All that was recorded by the task ``constants``."""
    way = Way.read(capture, "")
    return [step.value for step in way.steps] + [value for value, _ in way.leaves.values()]


def _nearest(pool: Sequence[Array], value: Array) -> float:
    """How far the nearest of some values is from one, whatever the order of elements."""
    ordered = np.sort(value, axis=None)
    whole = (apart(np.sort(other, axis=None), ordered) for other in pool if other.size == ordered.size)
    parts = (_of_beginning(pool, value, other, cut) for other in pool for cut in _begun(value, other))
    return min((*whole, *parts), default=np.inf)


def _of_beginning(pool: Sequence[Array], table: Array, other: Array, begun: Array) -> float:
    """How far the beginning of a table is from another; if it is that, how far the rest is."""
    far = apart(np.sort(other, axis=None), np.sort(begun, axis=None))
    if far <= EQUAL:
        rest = _rest(pool, table, other)
        if rest is not None:
            return _nearest(pool, rest)
    return far


def _stands_for_another(pool: Sequence[Array], own: Sequence[Array], table: Array) -> bool:
    """Whether the reference has a table of such a shape that the candidate has nowhere."""
    if table.size < LEAST:
        return False
    for value in pool:
        if value.size < LEAST or not _is_varied(value):
            continue
        if value.squeeze().shape != table.squeeze().shape and not [*_begun(table, value)]:
            continue
        if not any(_holds(value, mine) for mine in own):
            return True
    return False


def _is_varied(value: Array) -> bool:
    """Whether the elements of an array are not all one number."""
    return float(np.ptp(value)) > 0


def _begun(table: Array, other: Array) -> Iterator[Array]:
    """As many rows of a table as another has, where these are fewer."""
    long, short = table.squeeze(), other.squeeze()
    if long.ndim == 0 or long.ndim != short.ndim or long.shape[1:] != short.shape[1:]:
        return
    if FEW <= short.shape[0] < long.shape[0]:
        yield long[: short.shape[0]]


def _first_wrong(ways: tuple[Way, Way], pool: Sequence[Array], step: Step) -> Step:
    """Go back from a wrong step through wrong inputs to one that is made of right ones.

    Where nothing on its way is the reference's, the reference makes it in another way, and the last step is as good as any.
    """
    seen: set[int] = set()
    if not any(_is_known(pool, s) for s in _behind(ways[1], step)):
        return step
    while True:
        seen.add(step.number)
        made_of = _made_of(ways[1], step)
        before = [s for s in made_of if s.number not in seen]
        wrong = [s for s in before if not _is_right(ways[0], pool, s) and not _is_filled(ways[1], pool, s)]
        if not wrong:
            wrong = [s for s in before if _is_strange(pool, s)]
        if not wrong:
            return _as_listed(pool, step, made_of) or step
        step = max(wrong, key=lambda s: (s.value.size, s.number))


def _behind(way: Way, step: Step) -> list[Step]:
    """All steps on the way to one."""
    found: dict[int, Step] = {}
    todo = list(step.inputs)
    while todo:
        held = way.steps[todo.pop()]
        if held.number not in found:
            found[held.number] = held
            todo += held.inputs
    return list(found.values())


def _made_of(way: Way, step: Step) -> list[Step]:
    """What a step was made of; few numbers, which prove nothing, are looked through as well."""
    found: dict[int, Step] = {}
    todo = list(step.inputs)
    while todo:
        held = way.steps[todo.pop()]
        if held.number in found:
            continue
        found[held.number] = held
        if held.value.size < LEAST and not held.telling:
            todo += held.inputs
    return list(found.values())


def _equal(value: Array, other: Array) -> bool:
    """Whether two arrays hold the same; of other shapes, with their axes in some other order."""
    if same(value, other):
        return True
    if value.shape == other.shape or sorted(value.shape) != sorted(other.shape) or value.ndim > AXES:
        return False
    for axes in permutations(range(value.ndim)):
        if tuple(value.shape[a] for a in axes) != other.shape:
            continue
        if same(value.transpose(axes), other):
            return True
    return False


def _is_right(way: Way, pool: Sequence[Array], step: Step) -> bool:
    """Whether the reference has a step's values, or nothing to hold them against.

    Few numbers may be anything's: they are wrong where the reference has a variable of that name, with other values.
    """
    if step.telling:
        if _has(pool, step.value):
            return True
        return any(_is_part(value, step.value) for value in pool)
    if step.value.size >= LEAST:
        return True
    namesakes = [s for s in way.steps if s.record.op == step.record.op and s.value.shape == step.value.shape]
    if not namesakes:
        return True
    return any(same(s.value, step.value) for s in namesakes)


def _has(pool: Sequence[Array], table: Array) -> bool:
    """Whether the reference has a table, in one piece or in two."""
    if any(_equal(value, table) for value in pool):
        return True
    begun = next((value for value in pool if _holds(value, table)), None)
    if begun is None:
        return False
    rest = _rest(pool, table, begun)
    return rest is None or _has(pool, rest)


def _rest(pool: Sequence[Array], table: Array, begun: Array) -> Array | None:
    """The rows of a table behind those of another, where the reference has such rows."""
    whole, first = table.squeeze(), begun.squeeze()
    rest: Array = whole[first.shape[0] :]
    shapes = (whole.shape, rest.squeeze().shape)
    for value in pool:
        other = value.squeeze()
        if other.shape in shapes and not same(other, first):
            return rest
    return None


def _holds(value: Array, table: Array) -> bool:
    """Whether a value of the reference is a table, or the beginning of it."""
    if _equal(value, table):
        return True
    return any(same(value.squeeze(), begun) for begun in _begun(table, value))


def _is_known(pool: Sequence[Array], step: Step) -> bool:
    """Whether the reference has the several numbers of a step, simple ones too."""
    return step.value.size >= FEW and _is_varied(step.value) and _has(pool, step.value)


def _is_strange(pool: Sequence[Array], step: Step) -> bool:
    """Whether a step repeats a number that the reference has nowhere."""
    number = step.value.reshape(-1)[:1]
    if step.value.size < LEAST or _is_varied(step.value) or float(number[0]).is_integer():
        return False
    return not any(np.any(np.abs(other - number) <= EQUAL * np.abs(number)) for other in pool)


def _as_listed(pool: Sequence[Array], step: Step, made_of: Sequence[Step]) -> Step | None:
    """The step that made, in their order, the columns that the reference has otherwise.

    What is put together as one line made it is in the order on which that line decided. None where there is no such line.
    """
    columns = _differing_columns(pool, step.value)
    if not 1 < len(columns) < step.value.shape[-1]:
        return None
    makers: list[Step] = []
    for column in columns:
        holding = [s for s in made_of if s.value.size >= LEAST and same(s.value, step.value[..., column])]
        if len(holding) != 1:
            return None
        makers += holding
    numbers = [maker.number for maker in makers]
    if numbers != sorted(set(numbers)):  # not in order, or one made several
        return None
    lines = {maker.record.source for maker in makers}
    return makers[0] if len(lines) == 1 else None


def _differing_columns(pool: Sequence[Array], value: Array) -> list[int]:
    """The columns that differ from those of the reference's value that is most like one."""
    found: list[list[int]] = []
    for part in _parts_like(pool, value):
        if part.ndim <= 1 or not 1 < part.shape[-1] <= COLUMNS:
            continue
        found.append([c for c in range(part.shape[-1]) if not same(part[..., c], value[..., c])])
    return min(found, key=len, default=[])


def _parts_like(pool: Sequence[Array], value: Array) -> Iterator[Array]:
    """The reference's values of another one's shape, and slices of that shape."""
    for whole in pool:
        if whole.shape == value.shape:
            yield whole
        if whole.ndim != value.ndim + 1:
            continue
        for axis in range(whole.ndim):
            if whole.shape[:axis] + whole.shape[axis + 1 :] == value.shape:
                yield from np.moveaxis(whole, axis, 0)


def _is_filled(way: Way, pool: Sequence[Array], step: Step) -> bool:
    """Whether a step fills a part of an array with what a value of the reference has there."""
    for number in step.inputs:
        before = way.steps[number].value
        if before.shape != step.value.shape:
            continue
        changed = before != step.value
        if changed.any() and not changed.all():
            return any(other.shape == step.value.shape and same(other[changed], step.value[changed]) for other in pool)
    return False


def _is_part(whole: Array, part: Array) -> bool:
    """Whether an array is a row, a column or another slice of one along one axis."""
    if whole.ndim <= part.ndim:
        return False
    for axis in range(whole.ndim):
        rows = np.moveaxis(whole, axis, 0)
        if rows[:1].size != part.size:
            continue
        if any(same(row, part.reshape(row.shape)) for row in rows):
            return True
    return False
