"""One tensor made from several, which are looked at one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from paralign.dtypes import STORAGE, Typed
from paralign.errors import UsageError
from paralign.formats.checkpoint import Entry, some
from paralign.formats.writing import Outgoing
from paralign.weights.transforms import put, reached, take

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paralign.formats.checkpoint import Checkpoint
    from paralign.weights.byname import Way


def joined(checkpoint: Checkpoint, name: str, moves: Sequence[Way]) -> Outgoing:
    """A tensor of the destination that several of the source fill together.

    Args:
        checkpoint: the source.
        name: of the tensor in the destination.
        moves: what fills it, each a part.

    Raises:
        UsageError: its shape is not known, its parts have different element types, do not fit, overlap or leave something empty.
    """
    pieces = [(move, checkpoint.stored(move.source)) for move in moves]
    shape, dtype = _shape(name, moves), _dtype(name, {stored.entry.dtype for _, stored in pieces})
    _check_filled(name, shape, [(move, stored.entry.shape) for move, stored in pieces])

    def value() -> Typed:
        whole = np.empty(shape, STORAGE[dtype])
        for move, stored in pieces:
            put(move.into, whole, take(move.transform, stored.value().array))
            stored.release()
        return Typed(whole, dtype)

    def expect() -> None:
        for _, stored in pieces:
            stored.expect()

    known = [(stored.identity, move.transform, move.into) for move, stored in pieces if stored.identity is not None]
    return Outgoing(name, Entry(dtype, shape), value, expect=expect, identity=tuple(known) if len(known) == len(pieces) else None)


def _shape(name: str, moves: Sequence[Way]) -> tuple[int, ...]:
    shapes = {move.shape for move in moves if move.shape is not None}
    if len(shapes) != 1:
        raise UsageError(
            "the shape of this tensor, which is joined from parts, is not known"
            if not shapes
            else f"two shapes are given: {some(map(str, shapes))}",
            where=name,
            hint="give it in a rule that leads into it: shape = [768, 256]",
        )
    return shapes.pop()


def _dtype(name: str, dtypes: set[str]) -> str:
    if len(dtypes) > 1:
        raise UsageError(
            f"the parts of this tensor have different element types: {', '.join(sorted(dtypes))}", where=name, hint="cast them to one first"
        )
    return dtypes.pop()


def _check_filled(name: str, shape: tuple[int, ...], pieces: Sequence[tuple[Way, tuple[int, ...]]]) -> None:
    """Refuse parts that do not fill a tensor, each element once."""
    filled = np.zeros(shape, bool)
    for move, own in pieces:
        try:
            there, place = reached(move.transform, own), reached(move.into, shape)
        except UsageError as misfit:
            raise UsageError(misfit.what, where=f"{move.source} → {name}", hint=misfit.hint) from misfit
        if there != place:
            raise UsageError(
                f"{move.source} has shape {there} after {move.transform or 'nothing'}; its place, {move.into} of {shape}, has {place}",
                where=name,
                hint="mend transform, into or shape of the rule",
            )
        if bool(take(move.into, filled).any()):
            raise UsageError(f"{move.source} would go where another part went already", where=name, hint="mend `into` of the rules")
        put(move.into, filled, np.ones(place, bool))
    if not bool(filled.all()):
        raise UsageError(
            f"only {int(filled.sum())} of {filled.size} elements have a source", where=name, hint="add rules for the other parts"
        )
