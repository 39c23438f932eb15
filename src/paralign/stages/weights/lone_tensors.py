"""Layers that have a weight or a bias on one side only, and what to write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.adapters.profile import profile_of
from paralign.model import Finding

if TYPE_CHECKING:
    from paralign.model import Record
    from paralign.weights import Move, Plan

#: leaves that layers of both frameworks can be built without
LEAVES = ("weight", "bias")

#: layers that are named; the others are counted
SHOWN = 2


def findings(plan: Plan, framework: str) -> list[Finding]:
    """Say which layers lack tensors, where the layers themselves correspond.

    Args:
        plan: where tensors go; those of layers that correspond show which they are.
        framework: the candidate's, whose argument is named.
    """
    layers = dict(filter(None, (_layers(move) for move in plan.moves)))
    found: dict[tuple[bool, str, str, str], list[str]] = {}
    for move, extra in [*((m, True) for m in plan.extra), *((m, False) for m in plan.missing)]:
        record = move.candidate if extra else move.reference
        if record is None or record.role != "parameter" or _leaf(record) not in LEAVES:
            continue
        owner = _owner(record)
        other = next((theirs for theirs, ours in layers.items() if (theirs if extra else ours) == owner), None)
        if other is None:
            continue
        kinds = _kinds(plan, other)
        found.setdefault((extra, _leaf(record), *kinds), []).append(other)
    return [_finding(*key, owners, framework) for key, owners in found.items()]


def _finding(extra: bool, leaf: str, ours: str, theirs: str, owners: list[str], framework: str) -> Finding:
    named = ", ".join(owners[:SHOWN]) + (f" and {len(owners) - SHOWN} more" if len(owners) > SHOWN else "")
    if extra:
        cause = f"{named}: {theirs} has a {leaf} in the candidate, {ours} has none in the reference"
    else:
        cause = f"{named}: {ours} has a {leaf} in the reference, {theirs} has none in the candidate"
    return Finding("weights/one-sided", cause, _fix(extra, leaf, theirs, framework))


def _fix(extra: bool, leaf: str, kind: str, framework: str) -> str:
    argument = profile_of(framework).switch(kind, leaf)
    if argument is None:
        return f"build {kind} without a {leaf}" if extra else f"build {kind} with a {leaf}"
    return f"build {kind} with {argument}=False" if extra else f"build {kind} without {argument}=False"


def _layers(move: Move) -> tuple[str, str] | None:
    """The candidate's and the reference's layer of a tensor that went whole."""
    if move.reference is None or move.candidate is None or not move.whole:
        return None
    return _owner(move.candidate), _owner(move.reference)


def _kinds(plan: Plan, owner: str) -> tuple[str, str]:
    """What both sides call a layer of the candidate's."""
    for move in plan.moves:
        if move.reference is not None and move.candidate is not None and _owner(move.candidate) == owner:
            return _kind(move.reference), _kind(move.candidate)
    raise AssertionError("a layer of the candidate's is asked for because a tensor of it moves")


def _kind(record: Record) -> str:
    """What the layer of a tensor is called."""
    return str(record.attrs.get("kind") or "the layer")


def _owner(record: Record) -> str:
    return str(record.attrs.get("owner") or record.name.rpartition(".")[0])


def _leaf(record: Record) -> str:
    return str(record.attrs.get("leaf") or record.name.rpartition(".")[2])
