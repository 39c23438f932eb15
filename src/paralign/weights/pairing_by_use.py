"""Assignments by use: what both runs' operations do with the k-th tensor they take."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.weights.cheapest_pairing import assign
from paralign.weights.plan import SHARED, Choice, Option

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from paralign.weights.plan import Move, Plan, Slot
    from paralign.weights.tensors import Tensor

    Costs = np.ndarray[Any, np.dtype[np.float64]]

#: groups of more units than this stay as they are: the exact assignment takes their cube of steps
MOST = 400

#: exchanges of two roles that are proposed at most, each of them one run of the candidate
EXCHANGES = 40

#: weights of what operations do, beside the order of use, most likely first: both together, order alone, operations first
BALANCES = ((1.0, "in order and kind of use"), (0.0, "in order of use"), (1000.0, "by kind of use, then in order"))

#: how placing was decided where the user or equal names did it: not to be undone here
FIXED = frozenset({"name", "user", SHARED})

_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")


@dataclass(frozen=True)
class Use:
    """What one run does with a tensor.

    Args:
        first: when an operation first takes it; any number that grows with time.
        kinds: kinds of the operations that take it, then of those that take their results, and so on.
    """

    first: int
    kinds: tuple[frozenset[str], ...] = ()


@dataclass
class _Unit:
    """Moves that are exchanged together: a known layer's, or a tensor's alone."""

    moves: list[Move]

    def use(self, of: Mapping[str, Use], *, target: bool) -> Use:
        """When the first of its tensors is used, and how all of them are.

        Never used counts as last.
        """
        known = []
        for move in self.moves:
            tensor = move.target if target else move.source
            if tensor is not None and tensor.root in of:
                known.append(of[tensor.root])
        if not known:
            return Use(max((each.first for each in of.values()), default=0) + 1, ())
        levels: dict[int, frozenset[str]] = {}
        for each in known:
            for level, kinds in enumerate(each.kinds):
                levels[level] = levels.get(level, frozenset()) | kinds
        return Use(min(each.first for each in known), tuple(levels.values()))


def open_moves(plan: Plan) -> list[Move]:
    """Moves among which nothing but order and neighbours decided."""
    unsure = plan.unsure
    return [m for m in plan.moves if m.how not in FIXED and m.reference is not None and m.reference.name in unsure]


def by_use(plan: Plan, reference: Mapping[str, Use], candidate: Mapping[str, Use]) -> list[Choice]:
    """Other assignments of what names leave open, by use; to be proven by a run.

    Containers need not be alike for this: layers in one list on one side and in a list for each kind on the other are used in the same
    order. Tensors that names decide stay where they are; where names speak against a whole assignment, it says so (``decided``).

    Args:
        plan: complete or not.
        reference: name of the tensor that holds the values -> its use in the reference's run.
        candidate: likewise.
    """
    sure = open_moves(plan)
    if not sure:
        return []
    wide = [m for m in plan.moves if m.how not in FIXED]
    found, seen = [], set()
    for moves, decided in ((sure, False), (wide, True)):
        options = []
        for weight, note in BALANCES:
            takes = _takes(moves, reference, candidate, weight)
            if takes and frozenset(takes.items()) not in seen:
                seen.add(frozenset(takes.items()))
                options.append(Option(note, takes))
        against = " against names" if decided else ""
        likely = not decided and _takes(moves, reference, candidate, BALANCES[0][0]) != {}
        found.append(Choice(f"tensors as the operations of both runs take them{against}", options, decided=decided, likely=likely))
    found.append(Choice("tensors of equal shape", _exchanges(sure)))
    return [choice for choice in found if choice.options]


def _takes(moves: Sequence[Move], reference: Mapping[str, Use], candidate: Mapping[str, Use], weight: float) -> dict[Slot, Slot]:
    """Slot -> the slot whose source it takes, for slots that take another than their own."""
    takes: dict[Slot, Slot] = {}
    for units in _alike(moves):
        ours = [u.use(reference, target=False) for u in units]
        theirs = [u.use(candidate, target=True) for u in units]
        costs = _order(ours, theirs) + weight * _unlike(ours, theirs)
        for origin, place in enumerate(assign(costs)):
            pairs = zip(units[place].moves, units[origin].moves, strict=True)
            takes.update({here.slot: there.slot for here, there in pairs if origin != place})
    return takes


def _alike(moves: Iterable[Move]) -> list[list[_Unit]]:
    """Units that can be exchanged for each other, in groups of two and more."""
    members: dict[Hashable, list[Move]] = defaultdict(list)
    for move in moves:
        if move.tensors is None or not move.whole:
            continue
        source, target = move.tensors
        if source.kind and target.kind:
            members[source.owner, target.owner].append(move)
        else:
            members[move.slot].append(move)
    groups: dict[Hashable, list[_Unit]] = defaultdict(list)
    for together in members.values():
        together.sort(key=_shape)
        groups[tuple(_shape(m) for m in together)].append(_Unit(together))
    return [units for units in groups.values() if 1 < len(units) <= MOST]


def _shape(move: Move) -> tuple[Any, ...]:
    """What a move must have in common with another to be exchanged for it."""

    def end(tensor: Tensor | None) -> tuple[Any, ...]:
        if tensor is None:
            return ()
        return tensor.record.role, tensor.kind, tensor.leaf if tensor.kind else "", tuple(tensor.record.shape), tensor.axes

    return end(move.source), end(move.target)


def _order(ours: Sequence[Use], theirs: Sequence[Use]) -> Costs:
    """The squared distance of the ranks: its sum is least for one order only, that of use."""
    one, other = (np.argsort(np.argsort([u.first for u in side], kind="stable"), kind="stable") for side in (ours, theirs))
    return np.asarray(((one[:, None] - other[None, :]) / len(ours)) ** 2, float)


def _unlike(ours: Sequence[Use], theirs: Sequence[Use]) -> Costs:
    """The share of kinds of operations that only one of two tensors meets.

    Those further on count half as much as those before them.
    """
    costs = np.zeros((len(ours), len(theirs)))
    for row, one in enumerate(ours):
        for column, other in enumerate(theirs):
            costs[row, column] = sum(
                len(a ^ b) / max(1, len(a | b)) / 2**depth for depth, (a, b) in enumerate(zip(one.kinds, other.kinds, strict=False))
            )
    return costs


def _exchanges(moves: Sequence[Move]) -> list[Option]:
    """Two roles of equal shape exchanged in every module: ``gain`` and ``shift``, say."""
    found = []
    for units in _alike(moves):
        roles: dict[str, list[_Unit]] = defaultdict(list)
        for unit in units:
            roles[_NUMBER.sub("{}", unit.moves[0].slot[0])].append(unit)
        for (one, ours), (other, theirs) in combinations(roles.items(), 2):
            if len(ours) == len(theirs):
                found.append(Option(f"{one} and {other} exchanged", _exchanged(ours, theirs)))
    return found[:EXCHANGES]


def _exchanged(ours: Sequence[_Unit], theirs: Sequence[_Unit]) -> dict[Slot, Slot]:
    takes: dict[Slot, Slot] = {}
    for one, other in zip(ours, theirs, strict=True):
        for here, there in zip(one.moves, other.moves, strict=True):
            takes[here.slot], takes[there.slot] = there.slot, here.slot
    return takes
