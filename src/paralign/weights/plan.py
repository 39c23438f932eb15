"""What becomes of every tensor of two models, and the two ways through a transform."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from paralign.dtypes import Typed
from paralign.errors import UsageError
from paralign.weights.transforms import inverse, parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paralign.model import Record

#: ``how`` of a pair whose values another pair already carries, because both sides hold the two tensors as one
SHARED = "shared"


@dataclass
class Move:
    """A tensor's place on the other side; where one record is None it has no place, and ``note`` says why.

    ``transform`` leads from the reference's layout to the candidate's. ``how`` is ``name``, ``order`` (names did not match:
    taken in order of definition) or ``shared`` (another move carries the values already, because both sides hold the two
    tensors as one); for a tensor without a place it is ``dropped`` or ``unmatched``.
    """

    reference: Record | None
    candidate: Record | None
    transform: str | None
    how: str
    note: str = ""


@dataclass
class Ambiguity:
    """Tensors that fit one another in several orders; ``reference[i]`` was moved to ``candidate[i]``."""

    reference: list[str]
    candidate: list[str]
    note: str = ""


@dataclass
class Plan:
    """Every tensor of both sides, each in exactly one place.

    Args:
        moves: tensors of the reference that have a twin.
        dropped: tensors of either side that need no twin.
        missing: tensors of the reference that the candidate lacks.
        extra: tensors of the candidate that the reference lacks: nothing fills them.
        ambiguous: those among the moves that could as well have been others.
    """

    moves: list[Move] = field(default_factory=list)
    dropped: list[Move] = field(default_factory=list)
    missing: list[Move] = field(default_factory=list)
    extra: list[Move] = field(default_factory=list)
    ambiguous: list[Ambiguity] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether no tensor is left without a twin that should have one."""
        return not self.missing and not self.extra

    @property
    def transfers(self) -> list[tuple[Record, Move]]:
        """What to write, once each: the reference's record that *holds* the values, and the move.

        An alias is recorded without values; the record that holds them is the entry which it shares with.
        """
        holders = {m.reference.name: m.reference for m in (*self.moves, *self.dropped, *self.missing) if m.reference is not None}
        return [(holders.get(m.reference.attrs.get("shared") or "", m.reference), m)
                for m in self.moves if m.how != SHARED and m.reference is not None]


def apply(move: Move, value: Typed) -> Typed:
    """The reference's values in the candidate's layout; bits and element type are kept, and memory is shared.

    Raises:
        UsageError: the move has no twin, its transform is none of ours, or the values have another shape than the record.
    """
    reference, _ = _ends(move)
    return _permute(value, reference, parse(move.transform))


def invert(move: Move, value: Typed) -> Typed:
    """The candidate's values in the reference's layout: what :func:`apply` did, undone bit by bit.

    Raises:
        UsageError: as for :func:`apply`.
    """
    axes = parse(move.transform)
    _, candidate = _ends(move)
    return _permute(value, candidate, None if axes is None else inverse(axes))


def _ends(move: Move) -> tuple[Record, Record]:
    if move.reference is None or move.candidate is None:
        record = move.reference or move.candidate
        raise UsageError("this tensor has no twin to be moved to", where=record.name if record else None,
                         hint=move.note or "apply only what stands under 'moves'")
    return move.reference, move.candidate


def _permute(value: Typed, record: Record, axes: Sequence[int] | None) -> Typed:
    if tuple(value.array.shape) != tuple(record.shape):
        raise UsageError(f"the values have shape {tuple(value.array.shape)}, the plan was made for {tuple(record.shape)}",
                         where=record.name, hint="make the plan again from the records that the values belong to")
    if axes is None:
        return value
    if len(axes) != value.array.ndim:
        raise UsageError(f"a transposition of {len(axes)} axes does not fit a tensor of {value.array.ndim}", where=record.name,
                         hint="take the transform that the plan gives for this tensor")
    return Typed(value.array.transpose(axes), value.dtype)
