"""Which expression of a data set, or of how batches are put together, made a sample wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from paralign.locate.provenance.programs import text_orders
from paralign.locate.provenance.programs.own_steps import is_sound
from paralign.locate.provenance.search.blame import Search
from paralign.locate.provenance.tracing_back import name, recorded
from paralign.locate.provenance.values.expression_counterparts import TELLING
from paralign.locate.provenance.values.seen_values import Seen, SeenApart
from paralign.locate.provenance.values.value_graph import behind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paralign.context import Context
    from paralign.locate.provenance.search.blamed import Blamed
    from paralign.locate.provenance.tracing_back import Sides
    from paralign.locate.provenance.values.value_graph import Expression
    from paralign.model import Divergence


def follow(context: Context, divergence: Divergence | None, of: str, number: int, leaves: Sequence[str]) -> bool:
    """Name the expression that made a sample or batch wrong; whether there is one.

    Args:
        context: the check.
        divergence: what is named so far.
        of: ``dataset`` or ``loader``.
        number: of the sample or batch.
        leaves: the parts of it that differ, '' where it is one tensor.
    """
    sides = recorded(context, of, split=context.settings.split, number=number) if divergence is not None else None
    found = None if sides is None else first_wrong(sides, leaves)
    if sides is not None and found is not None and not found.placed and divergence is not None and divergence.inputs_agree:
        known = Seen(sides.reference.expressions)
        if any(_is_unseen(inner, known) for role, inner in found.expression.values if role != "function"):
            return False  # the way of the sample has seen more of it
    if sides is not None and found is None:
        found = text_orders.first_of_other_texts(sides) or text_orders.first_disordered(sides)
    name(divergence, found)
    return found is not None


def first_wrong(sides: Sides, leaves: Sequence[str]) -> Blamed | None:
    """The expression at fault; None where nothing of the user's own is known to be.

    Args:
        sides: what was recorded.
        leaves: the parts of the sample that differ.
    """
    seen = SeenApart(sides.reference.expressions)
    roots = [(sides.candidate.root(f"sample:{leaf}"), sides.reference.root(f"sample:{leaf}")) for leaf in leaves]
    own = sides.candidate.expressions
    blamed = []
    for root, due in roots:
        if root is not None:
            found = Search(root, due, seen, sides.reference.expressions, own=own).first()
            blamed.append(sides.conditions.of_value(root, found))
    sound = [each for each in blamed if each is not None and is_sound(each, seen)]
    return min(sound, key=lambda each: each.expression.number, default=None)


def _is_unseen(operand: Expression, known: Seen) -> bool:
    """Whether nothing says that an operand is right.

    An object that something made, as an image is, or grey levels of other pixels.
    """
    if operand.mark[0] == "k":
        is_path = str(operand.mark[1]).endswith("Path")  # where files lie is each side's own matter
        if is_path or operand.kind == "input" or _is_of_right_numbers(operand, known):
            return False
        return any(each.kind == "call" for each in behind(operand))
    if operand.mark[0] != "a" or operand.numbers is None or not bool(np.all(operand.numbers == np.round(operand.numbers))):
        return False
    return operand.size > len(operand.numbers) > TELLING and not known.has_rearranged(operand)


def _is_of_right_numbers(operand: Expression, known: Seen) -> bool:
    """Whether an object was made of right plain numbers alone, as a generator of a seed."""
    values = [each for each in behind(operand) if each.mark[0] != "k"]
    numbers = [each for each in values if each.numbers is not None and each.mark[0] in ("s", "l")]
    return bool(numbers) and len(numbers) == len(values) and all(known.has(each) for each in numbers)
