"""Tensors that the forward pass takes, mapped apart from those that it does not.

Averaged weights, teachers and heads that only training uses have the shapes of what they are copies of, often under other names and in
another structure: among them, what outputs can prove is not found.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from paralign import weights as mapping
from paralign.weights import tensor_copies
from paralign.weights.proof import Alike
from paralign.weights.tensor_copies import root_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from paralign.capture import Capture
    from paralign.dtypes import Typed
    from paralign.model import Record
    from paralign.weights import Move, Plan, Proof, Use
    from paralign.weights.tensor_copies import Equal

    #: both sides' tensors
    Sides = tuple[list[Record], list[Record]]


def divided(reference: Capture, candidate: Capture, used: tuple[dict[str, Use], dict[str, Use]]) -> tuple[Sides, Sides] | None:
    """Both sides' tensors that one run takes, and those that it does not.

    None where the run takes all of either side, or none.
    """
    taken: list[list[Record]] = []
    left: list[list[Record]] = []
    for capture, names in zip((reference, candidate), used, strict=True):
        taken.append([r for r in capture.records if root_of(r) in names])
        left.append([r for r in capture.records if root_of(r) not in names])
    if not all(taken) or not any(left):
        return None
    return (taken[0], taken[1]), (left[0], left[1])


def joined(
    proof: Proof,
    left: Sides,
    rest: Callable[[Sequence[Record], Sequence[Record]], Plan],
    equal: tuple[Equal, Equal],
    fetch: Callable[[str], Typed | None],
) -> tuple[Proof, list[Move]]:
    """A proof of what outputs depend on, with places for the other tensors as well.

    Args:
        proof: of the tensors that one run takes.
        left: those that it does not take.
        rest: plans for tensors that are copies of none.
        equal: whether two tensors of a side hold the same values as they were built.
        fetch: the reference's values by name.
    """

    def telling(name: str) -> bool:
        value = fetch(name)
        return value is not None and value.array.size > 1 and bool((value.array != value.array.flat[0]).any())

    ours, theirs = ([r for r in side if root_of(r) == r.name] for side in left)
    copies = tensor_copies.paired(proof.plan, ours, theirs, equal, telling)
    placed = (
        {root_of(move.reference) for move in copies if move.reference is not None},
        {root_of(move.candidate) for move in copies if move.candidate is not None},
    )
    others = rest(*([r for r in side if root_of(r) not in names] for side, names in zip(left, placed, strict=True)))
    plan = copy.copy(proof.plan)
    plan.moves = [*plan.moves, *copies, *others.moves]
    plan.missing, plan.extra = [*plan.missing, *others.missing], [*plan.extra, *others.extra]
    plan.dropped = [*plan.dropped, *others.dropped, *_second_names(left, placed)]
    plan.ambiguous = [*plan.ambiguous, *others.ambiguous]
    plan.index = None
    found = copy.copy(proof)
    found.plan, found.guess = plan, None if proof.right else plan
    found.ambiguous = [*proof.ambiguous, *(Alike(a.candidate, a.reference, seen=False) for a in others.ambiguous)]
    return found, copies


def _second_names(left: Sides, placed: tuple[set[str], set[str]]) -> list[Move]:
    """The entries that share with copies, whose values have their place."""
    found = []
    for side, names, is_reference in zip(left, placed, (True, False), strict=True):
        for record in side:
            root = root_of(record)
            if root != record.name and root in names:
                note = f"one tensor with {root}, whose values have their place"
                found.append(mapping.Move(record if is_reference else None, None if is_reference else record, None, "dropped", note))
    return found
