"""Where an argument of a layer's construction, which is known to be wrong, was written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.locate.provenance.search.blamed import Blamed
from paralign.locate.provenance.tracing_back import name, recorded
from paralign.locate.provenance.values.readings import setting_of

if TYPE_CHECKING:
    from paralign.context import Context
    from paralign.locate.provenance.tracing_back import Sides
    from paralign.locate.provenance.values.value_graph import Expression
    from paralign.model import Divergence


def follow(context: Context, divergence: Divergence, module: str, argument: str, note: str) -> None:
    """Name the line that writes an argument of one of the candidate's layers, if seen."""
    sides = recorded(context, "model")
    found = None if sides is None else written(sides, module, argument)
    if found is not None:
        name(divergence, found, note)


def written(sides: Sides, module: str, argument: str) -> Blamed | None:
    """What an argument of a construction was taken from: a number in code or settings."""
    built = sides.candidate.root(f"module:{module}")
    given = None if built is None else next((each for role, each in built.inputs if role == argument), None)
    if given is None:
        return None
    chain = [given]
    while (inner := _taken_from(chain[-1])) is not None and inner not in chain:
        chain.append(inner)
    return Blamed(chain[-1], chain[::-1]) if chain[-1].file else None


def _taken_from(each: Expression) -> Expression | None:
    """What a value is, handed on or read; None of what was computed or stands there."""
    if each.is_copy:
        return each.values[0][1]
    return setting_of(each)
