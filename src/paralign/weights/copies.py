"""Modules that are copies of others: what outputs do not show follows from them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from paralign.weights.plan import Option

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from paralign.model import Record
    from paralign.weights.plan import Move, Plan, Slot

    #: whether two tensors of one side, by name, hold the same values
    Equal = Callable[[str, str], bool]

#: tensors that two modules must share at least: a single equal bias says nothing
LEAST = 2


@dataclass(frozen=True)
class Copy:
    """Two modules of each side: the first is a copy of the second.

    ``names`` are the tensors of the reference whose places follow from it.
    """

    reference: tuple[str, str]
    candidate: tuple[str, str]
    names: tuple[str, ...]

    def told(self) -> str:
        """What followed, in a line."""
        (copy, original), (other, origin) = self.reference, self.candidate
        return (
            f"{len(self.names)} tensors of {copy} have the places in {other} that those of {original} have in {origin}: both are copies, "
            "equal bit for bit when they were built, and the outputs do not depend on them"
        )


def follow(plan: Plan, unseen: Collection[str], equal: tuple[Equal, Equal]) -> tuple[Plan, list[Copy]]:
    """The plan with unseen tensors placed as those that they are copies of, and these.

    Args:
        plan: under which the outputs are equal.
        unseen: tensors of the reference on which the outputs do not depend.
        equal: whether two tensors hold the same values as they were built, in the reference and in the candidate.
    """
    ours, theirs = _modules(plan.sources), _modules(plan.targets)
    found: list[Copy] = []
    left = set(unseen)
    for copy, original in _alike(ours, left, equal[0]):
        names = [f"{copy}.{suffix}" for suffix in ours[copy]]
        if not left.intersection(names):
            continue
        for other, origin in _counterparts(plan, original, ours, theirs, equal[1]):
            takes = _takes(plan, (copy, original), (other, origin), ours[copy])
            if takes is None:
                continue
            plan = _placed(plan, takes)
            found.append(Copy((copy, original), (other, origin), tuple(n for n in names if n in left)))
            left.difference_update(names)
            break
    return plan, found


def _modules(records: Iterable[Record]) -> dict[str, dict[str, tuple[int, ...]]]:
    """Every module's path -> the tensors below it by the rest of their names, with shapes."""
    found: dict[str, dict[str, tuple[int, ...]]] = defaultdict(dict)
    for record in records:
        parts = record.name.split(".")
        for cut in range(1, len(parts)):
            found[".".join(parts[:cut])][".".join(parts[cut:])] = tuple(record.shape)
    return found


def _alike(modules: dict[str, dict[str, tuple[int, ...]]], unseen: Collection[str], equal: Equal) -> list[tuple[str, str]]:
    """Modules without effect on outputs, each beside one with effect that holds the same."""
    groups: dict[frozenset[tuple[str, tuple[int, ...]]], list[str]] = defaultdict(list)
    hidden = set()
    for path, tensors in modules.items():
        if len(tensors) >= LEAST:
            groups[frozenset(tensors.items())].append(path)
        if any(f"{path}.{suffix}" in unseen for suffix in tensors):
            hidden.add(path)
    pairs = []
    for paths in groups.values():
        shown = [path for path in paths if path not in hidden]
        pairs += [(one, other) for one in paths if one in hidden for other in shown]
    pairs.sort(key=lambda pair: (pair[0].count("."), pair))
    return [(one, other) for one, other in pairs if _hold_the_same(one, other, modules[one], equal)]


def _hold_the_same(one: str, other: str, suffixes: Iterable[str], equal: Equal) -> bool:
    """Whether two modules have equal values under each of these names."""
    return all(equal(f"{one}.{suffix}", f"{other}.{suffix}") for suffix in suffixes)


def _counterparts(
    plan: Plan,
    original: str,
    ours: dict[str, dict[str, tuple[int, ...]]],
    theirs: dict[str, dict[str, tuple[int, ...]]],
    equal: Equal,
) -> list[tuple[str, str]]:
    """The candidate's copies of what an original of the reference went to."""
    targets = [m.slot[0] for suffix in ours[original] for m in plan.moves_of(f"{original}.{suffix}")]
    origin = _common(targets)
    if not origin or origin not in theirs:
        return []
    found = []
    for path, tensors in theirs.items():
        if path == origin or tensors != theirs[origin]:
            continue
        if _hold_the_same(path, origin, theirs[origin], equal):
            found.append((path, origin))
    return found


def _common(names: Sequence[str]) -> str:
    """The innermost module that all tensors lie in; '' where there is none."""
    parts = [name.split(".")[:-1] for name in names]
    shared: list[str] = []
    for level in zip(*parts, strict=False):
        if len(set(level)) > 1:
            break
        shared.append(level[0])
    return ".".join(shared)


def _takes(plan: Plan, reference: tuple[str, str], candidate: tuple[str, str], suffixes: Iterable[str]) -> dict[Slot, Slot] | None:
    """Slot of the copy -> the slot that its tensor fills now.

    None where the two modules are not filled in the same way.
    """
    (copy, original), (other, origin) = reference, candidate
    takes: dict[Slot, Slot] = {}
    for suffix in suffixes:
        own, model = plan.moves_of(f"{copy}.{suffix}"), plan.moves_of(f"{original}.{suffix}")
        if len(own) != len(model):
            return None
        for move, of in zip(_in_order(own), _in_order(model), strict=True):
            name, part = of.slot
            takes[other + name[len(origin) :], part] = move.slot
    return takes if set(takes) == set(takes.values()) else None


def _in_order(moves: Iterable[Move]) -> list[Move]:
    return sorted(moves, key=lambda m: (m.slot[0].rpartition(".")[2], m.slot[1] or "", m.transform or ""))


def _placed(plan: Plan, takes: dict[Slot, Slot]) -> Plan:
    """The plan with some slots filled otherwise.

    What changed went there as a copy, not by a proof.
    """
    moved = {slot: origin for slot, origin in takes.items() if slot != origin}
    if not moved:
        return plan
    chosen = plan.choose(Option("as in what it is a copy of", moved))
    chosen.moves = [replace(m, how="copy") if m.slot in moved else m for m in chosen.moves]
    return chosen
