"""Two expressions that do the same work in other words.

``x ** 0.5`` and ``sqrt(x)``, ``x.mean()`` and ``np.mean(x)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.locate.provenance.values.expression_counterparts import doing, operands, paired
from paralign.locate.provenance.values.value_graph import READINGS

if TYPE_CHECKING:
    from paralign.locate.provenance.values.value_graph import Expression

#: functions that raise to a power which nobody writes
_POWERS = {"sqrt": 0.5, "square": 2.0, "reciprocal": -1.0, "rsqrt": -0.5}


def beside(each: Expression, due: Expression) -> dict[str, Expression]:
    """The operands that the reference has in place of another expression's, by its roles.

    Args:
        each: an expression of the candidate.
        due: the reference's.

    Returns:
        Empty where they do different work; without the operands that have another number of elements.
    """
    if each.kind in READINGS or due.kind in READINGS:
        return {}
    found = _bases(each, due) if _exponent(each) is not None and _exponent(due) is not None else _operands(each, due)
    return {role: other for role, own, other in found if own.size == other.size}


def _bases(each: Expression, due: Expression) -> list[tuple[str, Expression, Expression]]:
    """What both raise to one power."""
    own, theirs = operands(each), operands(due)
    return [(own[0][0], own[0][1], theirs[0][1])] if _exponent(each) == _exponent(due) else []


def _exponent(each: Expression) -> float | None:
    """The power that an expression raises its first operand to; None where it does not."""
    known, taken = _POWERS.get(doing(each)), operands(each)
    if known is not None and len(taken) == 1:
        return known
    is_power = doing(each) == "power" and len(taken) == 2  # noqa: PLR2004 - base and exponent
    number = taken[1][1].scalar if is_power else None
    return float(number) if isinstance(number, (int, float)) else None


def _operands(each: Expression, due: Expression) -> list[tuple[str, Expression, Expression]]:
    """The operands of two expressions called alike: of one name, and the first ones."""
    own, theirs = operands(each), operands(due)
    if not doing(each) or doing(each) != doing(due) or not own or not theirs:
        return []
    if each.kind == due.kind == "operation" or len(own) == len(theirs) == 1:
        pairs = dict(paired(each, due))
        return [(role, inner, pairs[inner]) for role, inner in own if inner in pairs]
    names = dict(theirs[1:])
    return [(own[0][0], own[0][1], theirs[0][1]), *((role, inner, names[role]) for role, inner in own[1:] if role in names)]
