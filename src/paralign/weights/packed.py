"""Layers that one side has apart and the other as one: outputs or inputs joined.

Names speak of queries, keys and values (:mod:`paralign.weights.projections`). Here only sizes and order do: a layer is taken apart
where the layers of the other side that stand in its place have as many outputs together, or as many inputs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from paralign.weights.projections import cut
from paralign.weights.tensors import MATRIX, bare, is_convolution

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from paralign.weights.likeness import Unit
    from paralign.weights.tensors import Tensor

    #: layers of both sides that stand for each other: one against one or several
    Segment = tuple[list[Unit], list[Unit]]
    Key = Callable[[Unit], Hashable | None]
    Size = Callable[[Unit], int]
    #: tensor -> its parts
    Parts = dict[Tensor, list[Tensor]]

#: kinds whose tensors have an index for each output (or entry, or channel), before all others
ROWS = frozenset({"linear", "embedding", "batchnorm", "instancenorm"})


def taken_apart(
    mine: Sequence[Tensor], others: Sequence[Tensor], units: Sequence[Unit], other_units: Sequence[Unit]
) -> tuple[list[Tensor], list[Tensor]]:
    """The tensors of both sides, in parts where the other side has parts.

    Those of layers are taken apart.

    Layers of one kind with the same inputs are laid beside each other in order, those of one side against those of the other: where
    the numbers of outputs add up, one against several, there is a pack. Nothing is taken apart unless all of them come out even, nor
    where the sides have equally many of every size. Of what is left, layers with the same outputs are tried by their inputs.

    Args:
        mine: tensors of one side.
        others: those of the other side.
        units: the layers of ``mine`` that have no twin yet, in order of definition.
        other_units: those of ``others``.
    """
    parts: Parts = {}
    packs = _packs(units, other_units, _by_rows, partial(_size, axis=0))
    for whole, pieces in packs:
        parts.update(_cut_rows(whole, pieces))
    done = {id(u) for whole, pieces in packs for u in (whole, *pieces)}
    left = [[u for u in side if id(u) not in done] for side in (units, other_units)]
    for whole, pieces in _packs(left[0], left[1], _by_columns, partial(_size, axis=1)):
        parts.update(_cut_columns(whole, pieces))
    ours, theirs = ([piece for t in side for piece in parts.get(t, [t])] for side in (mine, others))
    return ours, theirs


def _packs(units: Sequence[Unit], others: Sequence[Unit], key: Key, size: Size) -> list[tuple[Unit, list[Unit]]]:
    """Layers of either side with those of the other side that they hold."""
    found: list[tuple[Unit, list[Unit]]] = []
    ours, theirs = _alike(units, key), _alike(others, key)
    for name in ours:
        if name not in theirs:
            continue
        segments = _first_segments(ours[name], theirs[name], size)
        found += [(one[0], other) for one, other in segments if len(other) > 1]
        found += [(other[0], one) for one, other in segments if len(one) > 1]
    return found


def _first_segments(units: Sequence[Unit], others: Sequence[Unit], size: Size) -> list[tuple[list[Unit], list[Unit]]]:
    """The segments of the most likely order in which all layers come out even; else none."""
    for order in _orders(units, others, size):
        segments = _segments(*order, size)
        if segments is not None:
            return segments
    return []


def _alike(units: Sequence[Unit], key: Key) -> dict[Hashable, list[Unit]]:
    """Layers that can stand beside each other."""
    found: dict[Hashable, list[Unit]] = defaultdict(list)
    for unit in units:
        if (name := key(unit)) is not None:
            found[name].append(unit)
    return found


def _by_rows(unit: Unit) -> Hashable | None:
    """What layers have in common whose outputs can stand beside each other: kind and inputs."""
    first = unit.tensors[0]
    if first.kind not in ROWS and not is_convolution(first):
        return None
    if not all(t.shape for t in unit.tensors) or len({t.shape[0] for t in unit.tensors}) > 1:
        return None
    return _kind(unit), tuple((t.leaf, bare(t.shape[1:])) for t in unit.tensors)


def _by_columns(unit: Unit) -> Hashable | None:
    """What layers have in common whose inputs can stand beside each other: kind and outputs."""
    weight = unit.tensors[-1]
    known = weight.kind == "linear" or is_convolution(weight)
    if not known or any(t.part for t in unit.tensors) or len(weight.shape) < MATRIX:
        return None
    if [t.leaf for t in unit.tensors] not in (["weight"], ["bias", "weight"]):
        return None
    return _kind(unit), weight.shape[0], bare(weight.shape[2:])


def _kind(unit: Unit) -> str:
    """The kind of a layer, a convolution by 1 as the Linear layer that computes the same."""
    first = unit.tensors[0]
    if is_convolution(first) and all(len(bare(t.shape[1:])) <= 1 for t in unit.tensors):
        return "linear"
    return first.kind


def _is_part(unit: Unit) -> bool:
    """Whether a layer is a part of a fused one: it stands for one of the other side."""
    return any(tensor.part for tensor in unit.tensors)


def _size(unit: Unit, axis: int) -> int:
    return unit.tensors[-1].shape[axis]


def _orders(units: Sequence[Unit], others: Sequence[Unit], size: Size) -> Iterator[tuple[list[Unit], list[Unit]]]:
    """In which orders to lay two sides' layers beside each other, the most likely first.

    All of them; those of sizes that are not as frequent on both sides; and these by turns, one of each size, as where heads of one kind
    are used on all levels before those of the next.
    """
    ours, theirs = Counter(map(size, units)), Counter(map(size, others))
    if ours == theirs:
        return
    called = all(u.called is not None for u in (*units, *others))
    orders: list[Callable[[Unit], int]] = [lambda u: u.called or 0] if called else []
    for order in (*orders, lambda u: u.place):
        sides = sorted(units, key=order), sorted(others, key=order)
        yield sides
        uneven = [[u for u in side if ours[size(u)] != theirs[size(u)]] for side in sides]
        yield uneven[0], uneven[1]
        yield _by_turns(uneven[0], size), _by_turns(uneven[1], size)


def _by_turns(units: Sequence[Unit], size: Size) -> list[Unit]:
    """The first layer of each size, then the second of each."""
    seen: Counter[int] = Counter()
    turns = []
    for unit in units:
        turns.append(seen[size(unit)])
        seen[size(unit)] += 1
    return [units[n] for n in sorted(range(len(units)), key=turns.__getitem__)]


def _segments(units: Sequence[Unit], others: Sequence[Unit], size: Size) -> list[Segment] | None:
    """Two sequences as segments of equal size, one layer against one or several.

    None where that does not come out even.
    """
    found: list[Segment] = []
    ours, theirs = list(units), list(others)
    while ours and theirs:
        one, other = [ours.pop(0)], [theirs.pop(0)]
        while (short := sum(map(size, one)) - sum(map(size, other))) != 0:
            segment, rest = (one, ours) if short < 0 else (other, theirs)
            if not rest:
                return None
            segment.append(rest.pop(0))
        if len(one) > 1 and len(other) > 1:
            return None
        if len(one) != len(other) and any(map(_is_part, (*one, *other))):
            return None
        found.append((one, other))
    if ours or theirs:
        return None
    return found


def _cut_rows(whole: Unit, pieces: Sequence[Unit]) -> Parts:
    owners, sizes = [_numbered(whole.owner, n) for n in range(len(pieces))], [_size(u, 0) for u in pieces]
    return {tensor: cut(tensor, owners, sizes) for tensor in whole.tensors}


def _cut_columns(whole: Unit, pieces: Sequence[Unit]) -> Parts:
    """The parts of a product whose inputs stand beside each other.

    Its bias belongs to that one of them which has one.
    """
    *bias, weight = whole.tensors
    biased = [n for n, unit in enumerate(pieces) if len(unit.tensors) > 1]
    if len(biased) != len(bias):
        return {}
    owners, sizes = [_numbered(whole.owner, n) for n in range(len(pieces))], [_size(u, 1) for u in pieces]
    kept = {tensor: [replace(tensor, owner=owners[n])] for tensor, n in zip(bias, biased, strict=True)}
    return {weight: cut(weight, owners, sizes, axis=1), **kept}


def _numbered(path: str, number: int) -> str:
    """A module's path with a part's number, where no number of a list stands.

    >>> _numbered("blocks.0.head", 1), _numbered("heads.0", 1), _numbered("0", 1)
    ('blocks.0.head_1', 'heads_1.0', 'part_1.0')
    """
    steps = path.split(".") if path else []
    places = [n for n, step in enumerate(steps) if not step.isdecimal()]
    if not places:
        return ".".join([f"part_{number}", *steps])
    steps[places[-1]] += f"_{number}"
    return ".".join(steps)
