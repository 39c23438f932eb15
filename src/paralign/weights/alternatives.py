"""The other assignments that the shapes allow, most likely first."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import replace
from functools import partial
from itertools import pairwise, permutations
from typing import TYPE_CHECKING

from paralign.weights.layouts import layer
from paralign.weights.likeness import DECIDED
from paralign.weights.names import read
from paralign.weights.plan import SHARED, Choice, Option
from paralign.weights.projections import AXES, by_head, parts_of
from paralign.weights.stacked import turned
from paralign.weights.tensors import MATRIX, is_convolution, route
from paralign.weights.transforms import compose, inverse, steps, transpose, undone

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from paralign.weights.likeness import Costs, Group
    from paralign.weights.plan import Move, Plan, Slot
    from paralign.weights.tensors import Tensor

    Way = tuple[str | None, str | None]

    #: a move with its source and target
    Connection = tuple[Move, Tensor, Tensor]

#: so many roles are tried in every order; of more, two at a time are exchanged, up to as many as these
FEW, SEVERAL = 4, 8

#: options of one choice, at most
MOST = 40

#: gates of a recurrent layer
GATES = {"gru": 3, "lstm": 4}

#: usual widths of a head, most usual first
WIDTHS = (64, 32, 128, 16, 80, 96, 48, 256, 8, 4)


def choices(plan: Plan, groups: Sequence[Group], others: Sequence[tuple[str, Plan]]) -> list[Choice]:
    """Every choice that a plan made.

    Args:
        plan: the plan, complete or not.
        groups: the layers that were paired otherwise than by name.
        others: plans for the same models by other orders, and what to call them.
    """
    slots = {m.target: m.slot for m in plan.carrying if m.target is not None}
    whole = []
    for note, other in others:
        option = _instead(plan, other, note)
        if option is not None:
            whole.append(option)
    found = [_uneven(plan), *_whole(plan, whole)]
    ranked = sorted((_exchanges(group, slots) for group in groups), key=lambda c: c[0])
    found += [choice for loss, choice in ranked if loss < DECIDED]
    found += [*_moved(plan), *_interleaved(plan), *_reordered(plan), _flattened(plan), _turned(plan)]
    found += [choice for loss, choice in ranked if loss >= DECIDED]
    return [choice for choice in found if choice.options]


def _open(plan: Plan) -> list[Move]:
    """The moves that can be made otherwise: neither shared nor the user's."""
    return [m for m in plan.moves if m.how not in (SHARED, "user")]


def _connected(moves: Sequence[Move]) -> list[Connection]:
    """The moves that have a tensor on each side, with their tensors."""
    return [(m, *m.tensors) for m in moves if m.tensors is not None]


def _open_and_whole(plan: Plan) -> list[Connection]:
    """Those of the open moves that lead from all of a tensor to all of another."""
    return _connected([m for m in _open(plan) if m.whole])


def _is_exchange(takes: dict[Slot, Slot]) -> bool:
    """Whether slots take from each other, so that no value is used twice or left out."""
    return bool(takes) and set(takes) == set(takes.values())


def _rearranged(size: int) -> list[tuple[int, ...]]:
    """Other orders of so many: all of them, or of many those that exchange two."""
    if size > FEW:
        return _swaps(size)
    given = tuple(range(size))
    return [order for order in permutations(given) if order != given]


def _ways(moves: Sequence[Move], way_of: Callable[[Move], Way | None]) -> dict[Slot, Way]:
    """Another way for each of the moves that has one, by what the move fills."""
    found: dict[Slot, Way] = {}
    for move in moves:
        way = way_of(move)
        if way is not None:
            found[move.slot] = way
    return found


def _whole(plan: Plan, options: Sequence[Option]) -> list[Choice]:
    """Whole plans: first those within what names leave open, then those against names."""
    unsure = plan.unsure
    free = {m.slot for m in plan.moves if m.reference is not None and m.reference.name in unsure}
    within: list[Option] = []
    against: list[Option] = []
    for option in options:
        (within if option.takes.keys() <= free else against).append(option)
    note = "all that names do not decide"
    return [Choice(note, within), Choice(f"{note}, and some that they do", against, decided=True)]


def _instead(plan: Plan, other: Plan, note: str) -> Option | None:
    """Another plan as an option of this one, if it fills the same slots otherwise."""
    ours = plan.by_slot
    at = {m.source.place: slot for slot, m in ours.items() if m.source is not None}
    takes: dict[Slot, Slot] = {}
    for slot, move in other.by_slot.items():
        if slot not in ours or move.source is None:
            return None
        origin = at.get(move.source.place)
        if origin is None:
            return None
        if origin != slot:
            takes[slot] = origin
    return Option(note, takes) if _is_exchange(takes) else None


def _uneven(plan: Plan) -> Choice:
    """Pair layers of some blocks as their like are paired in most blocks.

    Only those that are paired otherwise change.
    """
    seen: dict[str, Counter[str]] = defaultdict(Counter)
    held: dict[tuple[str, str, str], Slot] = {}
    moves = _connected(plan.carrying)
    for move, source, target in moves:
        prefix, role = _role(target.owner)
        seen[_role(source.owner)[1]][role] += 1
        held[prefix, role, target.leaf] = move.slot
    takes: dict[Slot, Slot] = {}
    for move, source, target in moves:
        prefix, role = _role(target.owner)
        others = seen[_role(source.owner)[1]]
        usual, count = others.most_common(1)[0]
        if role == usual or 2 * count <= others.total():
            continue
        place = held.get((prefix, usual, target.leaf))
        if place is not None:
            takes[place] = move.slot
    options = [Option("paired as there", takes)] if _is_exchange(takes) else []
    return Choice("layers paired otherwise than in other blocks", options)


def _role(path: str) -> tuple[str, str]:
    """The path to a layer's block, and the layer's name in there, without numbers.

    >>> _role("layer2.1.bn2"), _role("layer2.1.downsample.1")
    (('layer2.1.', 'bn2'), ('layer2.1.', 'downsample.1'))
    """
    parts = path.split(".")[-2:]
    role = ".".join(parts[1:] if len(parts) > 1 and parts[0].isdecimal() else parts)
    return path[: len(path) - len(role)], role


def _exchanges(group: Group, slots: dict[Tensor, Slot]) -> tuple[float, Choice]:
    """Layers of a group that stand beside each other in the same block, in other orders.

    The same in every block.
    """
    blocks: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for number, (row, _) in enumerate(group.pairs):
        blocks[read(group.reference[row].path).indices].append(number)
    sizes = {len(b) for b in blocks.values()}
    size = max(sizes, default=0)
    if sizes != {size} or not 1 < size <= SEVERAL:
        return _pairwise(group, slots)
    members = list(blocks.values())
    orders = _rearranged(size)
    scored = sorted((_loss(group, group.evidence, members, order), order) for order in orders)
    decided = min((_loss(group, group.names, members, order) for order in orders), default=0.0) >= DECIDED
    paths = [group.candidate[group.pairs[n][1]].path for n in members[0]]
    options = [_in_order(group, slots, members, order) for _, order in scored[:MOST]]
    loss = scored[0][0] if scored else 0.0
    each = f" in each of {len(members)} blocks" if len(members) > 1 else ""
    return loss, Choice(f"{size} layers of equal shape{each}: " + ", ".join(paths), options, decided)


def _in_order(group: Group, slots: dict[Tensor, Slot], blocks: list[list[int]], order: tuple[int, ...]) -> Option:
    """The layers of every block in this order."""
    paths = [group.candidate[group.pairs[n][1]].path for n in blocks[0]]
    takes: dict[Slot, Slot] = {}
    for block in blocks:
        for place, origin in enumerate(order):
            takes.update(_taking(group, slots, block[place], block[origin]))
    exchanged = [f"{paths[place]} takes that of {paths[origin]}" for place, origin in enumerate(order) if place != origin]
    return Option(" · ".join(exchanged), takes)


def _pairwise(group: Group, slots: dict[Tensor, Slot]) -> tuple[float, Choice]:
    """Neighbours in a group exchanged, two at a time, those that nothing but order decides."""
    options = []
    for component in group.nameless():
        for one, other in pairwise(component[:MOST]):
            paths = [group.candidate[group.pairs[n][1]].path for n in (one, other)]
            takes = {**_taking(group, slots, one, other), **_taking(group, slots, other, one)}
            options.append(Option(f"{paths[0]} and {paths[1]} exchanged", takes))
    return 0.0, Choice(f"{len(group.pairs)} layers of equal shape", options)


def _swaps(size: int) -> list[tuple[int, ...]]:
    found = []
    for one in range(size):
        for other in range(one + 1, size):
            order = list(range(size))
            order[one], order[other] = other, one
            found.append(tuple(order))
    return found


def _loss(group: Group, evidence: Costs | None, blocks: list[list[int]], order: tuple[int, ...]) -> float:
    """How much speaks against an order of the roles, summed over one block."""
    if evidence is None:
        return 0.0
    block = blocks[0]
    total = 0.0
    for place, origin in enumerate(order):
        column = group.pairs[block[place]][1]
        total += evidence[group.pairs[block[origin]][0], column] - evidence[group.pairs[block[place]][0], column]
    return float(total)


def _taking(group: Group, slots: dict[Tensor, Slot], place: int, origin: int) -> dict[Slot, Slot]:
    ours = group.candidate[group.pairs[place][1]].tensors
    theirs = group.candidate[group.pairs[origin][1]].tensors
    pairs = zip(ours, theirs, strict=True)
    return {slots[a]: slots[b] for a, b in pairs if a in slots and b in slots}


def _moved(plan: Plan) -> list[Choice]:
    """Parts of unequal sizes, and of inputs, in other orders."""
    packs: dict[tuple[str, tuple[int, ...]], list[Move]] = defaultdict(list)
    for move in _open(plan):
        sizes, across = _sizes(move), _across(move)
        if across or len(set(sizes)) > 1:
            packs[AXES[across], sizes].append(move)
    return [_places(moves, *way) for way, moves in packs.items()]


def _across(move: Move) -> bool:
    """Whether an end of a move holds several layers' inputs beside each other."""
    ends = [t for t in (move.source, move.target) if t is not None]
    return any(bool(t.sizes) and (t.part or "").startswith(AXES[1]) for t in ends)


def _places(moves: list[Move], axis: str, sizes: tuple[int, ...]) -> Choice:
    count, options = len(sizes), []
    for order in _rearranged(count):
        starts = {part: sum(sizes[p] for p in order[:place]) for place, part in enumerate(order)}
        spans = [f"{axis}({starts[part]}, {starts[part] + sizes[part]})" for part in range(count)]
        ways = _ways(moves, lambda move, spans=spans: _through(move, lambda t: spans[t.number]))  # type: ignore[misc]
        options.append(Option(f"{axis} of {_listed(sizes)} in the order {_listed(order)}", {}, ways))
    return Choice("the order of the parts of one layer", options[:MOST])


def _interleaved(plan: Plan) -> list[Choice]:
    """Fused layers whose heads lie together, query, key and value of each head side by side.

    Those of three parts, and of two.
    """
    fused: dict[int, list[Move]] = defaultdict(list)
    for move in _open(plan):
        if _across(move):
            continue
        parts = _fusion(move)
        if parts:
            fused[parts].append(move)
    return [_by_heads(moves) for _, moves in sorted(fused.items(), reverse=True)]


def _by_heads(fused: list[Move]) -> Choice:
    least = min(_width(m) for m in fused)
    narrowest = 2 if any(len(set(_sizes(m))) <= 1 for m in fused) else 1
    heads = [n for n in range(2, least + 1) if least % n == 0 and least // n >= narrowest]
    heads.sort(key=lambda n: WIDTHS.index(least // n) if least // n in WIDTHS else len(WIDTHS))
    options = []
    for side, regroup in (("fused tensor", _regrouped), ("candidate", _regrouped_there)):
        for count in heads:
            ways = _ways(fused, partial(regroup, heads=count))
            if len(ways) == len(fused):
                options.append(Option(f"{count} heads, the parts of each side by side in the {side}", {}, ways))
    return Choice("the order inside fused projections", options[:MOST])


def _fusion(move: Move) -> int:
    """How many parts are fused at an end of a move; 0 where none are."""
    if move.source is None or move.target is None:
        return 0
    apart = len(_sizes(move))
    return apart or _packed(move.source, move.target)


def _packed(source: Tensor, target: Tensor) -> int:
    """How many projections are fused on both sides, as names say; 0 for all others."""
    counts = {len(parts_of(t)) for t in (source, target)} - {0}
    return counts.pop() if len(counts) == 1 else 0


def _sizes(move: Move) -> tuple[int, ...]:
    """The sizes of the parts of that end of a move which is taken apart.

    None where neither is.
    """
    if move.tensors is None:
        return ()
    source, target = move.tensors
    return source.sizes or target.sizes


def _width(move: Move) -> int:
    """What divides the sizes of all fused parts."""
    sizes = _sizes(move)
    if sizes or move.source is None:
        return math.gcd(*sizes)
    return move.source.shape[0] // _fusion(move)


def _through(move: Move, part_of: Callable[[Tensor], str | None]) -> Way | None:
    """The way of a move whose fused end takes another part."""
    source, target = move.source, move.target
    if source is None or target is None:
        return None
    part = part_of(source if source.sizes else target)
    if part is None:
        return None
    return route(replace(source, part=part), target) if source.sizes else route(source, replace(target, part=part))


def _regrouped(move: Move, heads: int) -> Way | None:
    """The way of a move whose fused end has its heads apart."""
    if _sizes(move):
        return _through(move, lambda t: by_head(t, heads))
    if move.source is None or move.target is None:
        return None
    return _shuffled(move.source, move.target, (heads, _fusion(move)))


def _regrouped_there(move: Move, heads: int) -> Way | None:
    """The same for a fused candidate that has the heads apart where the reference has not."""
    source, target = move.source, move.target
    if source is None or target is None or source.sizes or target.sizes:
        return None
    return _shuffled(source, target, (_fusion(move), heads))


def _shuffled(source: Tensor, target: Tensor, counts: tuple[int, int]) -> Way | None:
    rows = source.shape[0]
    if rows % (counts[0] * counts[1]) or source.shape != target.shape:
        return None
    apart = (*counts, rows // (counts[0] * counts[1]), *source.shape[1:])
    turned = (1, 0, *range(2, len(apart)))
    shuffle = f"reshape{_listed(apart)} then transpose{_listed(turned)} then reshape{_listed(source.shape)}"
    return compose(source.path, shuffle, undone(target.path, tuple(target.record.shape))), None


def _reordered(plan: Plan) -> list[Choice]:
    """Fused projections and recurrent gates whose parts come in another order."""
    found: dict[tuple[int, str], list[Connection]] = defaultdict(list)
    for move, source, target in _open_and_whole(plan):
        count, what = _gates(source, target), "gates of recurrent layers"
        if not count:
            count, what = _packed(source, target), "parts of fused projections"
        if count and source.shape[0] % count == 0 and source.shape == target.shape:
            found[count, what].append((move, source, target))
    return [Choice(f"the order of the {what}", _orders(moves, count)) for (count, what), moves in found.items()]


def _orders(moves: list[Connection], count: int) -> list[Option]:
    options = []
    for order in permutations(range(count)):
        if order == tuple(range(count)):
            continue
        step = f"parts{_listed(order)}"
        ways: dict[Slot, Way] = {}
        for move, source, target in moves:
            ways[move.slot] = compose(source.path, step, undone(target.path, tuple(target.record.shape))), None
        options.append(Option(f"their {count} parts in the order {_listed(order)}", {}, ways))
    return options


def _gates(source: Tensor, target: Tensor) -> int:
    """How many gates lie in a recurrent tensor that a side has made itself; else 0."""
    kinds = {layer(t.record.attrs.get("kind") or "").removesuffix("cell") for t in (source, target)}
    gates = kinds & GATES.keys()
    if len(kinds) == 1 or len(gates) != 1:
        return 0
    return GATES[gates.pop()]


def _listed(numbers: Sequence[int]) -> str:
    return f"({', '.join(map(str, numbers))})"


def _flattened(plan: Plan) -> Choice:
    """Convolution kernels that the other side holds as matrices, axes in another order."""
    orders: dict[tuple[int, ...], dict[Slot, Way]] = defaultdict(dict)
    for move, source, target in _open_and_whole(plan):
        if is_convolution(source):
            kernel, matrix = source, target
        elif is_convolution(target):
            kernel, matrix = target, source
        else:
            continue
        if len(matrix.shape) != MATRIX or matrix.shape != (kernel.shape[0], math.prod(kernel.shape[1:])):
            continue
        for order in _patch_orders(kernel.shape):
            apart = tuple(kernel.shape[axis] for axis in order)
            flat, whole = f"reshape{_listed(matrix.shape)}", f"reshape{_listed(apart)}"
            if kernel is source:
                way = compose(kernel.path, transpose(order), flat)
            else:
                way = compose(matrix.path, whole, transpose(inverse(order)))
            orders[order][move.slot] = (compose(way, undone(target.path, tuple(target.record.shape))), None)
    options = [Option(f"the axes of patches in the order {_listed(order)}", {}, ways) for order, ways in orders.items()]
    return Choice("the order inside flattened kernels", options[:MOST], likely=True)


def _patch_orders(shape: Sequence[int]) -> list[tuple[int, ...]]:
    """Orders of a kernel's axes that order its elements otherwise, channels last first.

    >>> _patch_orders((8, 3, 4)), _patch_orders((8, 1, 4))
    ([(0, 2, 1)], [])
    """
    axes = range(1, len(shape))
    last = (*axes[1:], *axes[:1])
    ranked = sorted(permutations(axes), key=lambda order: order != last)
    told = tuple(axis for axis in axes if shape[axis] > 1)
    known, found = {told}, []
    for order in ranked:
        moved = tuple(axis for axis in order if shape[axis] > 1)
        if moved not in known:
            known.add(moved)
            found.append((0, *order))
    return found


def _turned(plan: Plan) -> Choice:
    """Square matrices of layers of the user's own, transposed: their layout is not known."""
    ways = _ways(_open(plan), _turning)
    options = [Option("all of them transposed", {}, dict(ways))] if ways else []
    alike: dict[tuple[str, ...], dict[Slot, Way]] = defaultdict(dict)
    for slot, way in ways.items():
        alike[read(slot[0]).words][slot] = way
    if len(alike) > 1:
        options += [Option(f"transposed: {', '.join(slot[0] for slot in some)}", {}, some) for some in alike.values()]
    own = any(m.slot in ways and _is_own(m) for m in plan.moves)
    return Choice("square matrices of layers of the user's own", options[:MOST], turns=own)


def _is_own(move: Move) -> bool:
    """Whether neither end belongs to a layer of a framework."""
    return not any(t is not None and t.kind for t in (move.source, move.target))


def _turning(move: Move) -> Way | None:
    """The way of a move that turns a square matrix of the user's own; None for all others."""
    source, target = move.source, move.target
    if source is None or target is None:
        return None
    if (one := turned(source)) is not None:
        return route(one, target)
    if (other := turned(target)) is not None:
        return route(source, other)
    return (compose(move.transform, "transpose(1, 0)"), move.into) if _square(move) else None


def _square(move: Move) -> bool:
    """Whether a move leads from one square matrix to another, at most transposed."""
    if move.tensors is None or not move.whole:
        return False
    source, target = move.tensors
    if source.kind and target.kind:
        return False
    shape = source.record.shape
    if len(shape) != MATRIX or shape[0] != shape[1] or shape[0] == 1:
        return False
    if {source.kind, target.kind} - {"", "linear"}:
        return False
    return all(s.name == "transpose" for s in steps(move.transform))
