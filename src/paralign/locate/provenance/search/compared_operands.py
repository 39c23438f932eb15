"""Whether all that an expression takes was compared with the reference's and is right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.locate.provenance.values.expression_counterparts import is_equal
from paralign.locate.provenance.values.expression_traits import numbered_roles

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from paralign.locate.provenance.values.value_graph import Expression

#: the role of what is called: each side calls its own
_FUNCTION = "function"


def are_right(each: Expression, beside: Mapping[str, Expression], is_right: Callable[[Expression], bool]) -> bool:
    """Whether every operand was compared and found right.

    A number that is written in the expression counts only where its counterpart is there: the same number stands in every program for
    something else.

    Args:
        beside: what the reference takes in their place, by role, where it is the same operation.
        is_right: of any other value, whether it was compared and found right, in its order too.
    """
    operands = [(role, inner) for role, inner in numbered_roles(each.values) if role != _FUNCTION]
    return all(_is_right(inner, beside.get(role), is_right) for role, inner in operands)


def _is_right(inner: Expression, twin: Expression | None, is_right: Callable[[Expression], bool]) -> bool:
    if twin is not None and (same := is_equal(inner, twin)) is not None:
        return same
    if inner.kind == "display" and inner.values:
        return all(_is_right(part, None, is_right) for _, part in inner.values)
    if inner.mark[0] == "s" and not isinstance(inner.scalar, str) and inner.uncopied.kind == "constant":
        return False
    return is_right(inner)
