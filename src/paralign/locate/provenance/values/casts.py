"""What a value was before it was handed on, or given another type or place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from paralign.locate.provenance.values.expression_counterparts import has_elements_of, is_drawn, is_equal, origin
from paralign.locate.provenance.values.expression_traits import has_telling_order, is_common_number, numbered_roles
from paralign.locate.provenance.values.readings import taken_as

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paralign.locate.provenance.values.value_graph import Expression


#: roles in a call that are no arguments
CALLED = frozenset({"self", "function"})

#: kinds of expressions whose result is as wrong as what they take
FAITHFUL = frozenset({"operation", "call"})


def number_before_cast(each: Expression) -> Expression | None:
    """The one number that a call only gives another type: ``float(x)``, ``x.item()``.

    Any number, but for rounding: a cast to float32 changes its last digits.
    """
    given = _given_alone(each, each.values)
    if given is None or given.numbers is None or each.numbers is None:
        return None
    if given.mark[0] != "s" or each.mark[0] != "s" or not is_equal(given, each):
        return None
    is_exact = np.array_equal(given.numbers, each.numbers)
    is_whole = float(each.numbers[0]) == round(float(each.numbers[0]))
    return given if is_exact or not is_whole else None  # ``int(x)`` is more than another type


def before_copies_and_casts(due: Expression) -> Expression:
    """What made a value, before it was handed on or given another type."""
    made = due.uncopied
    while (before := number_before_cast(made)) is not None:
        made = before.uncopied
    return made


def before_last_call(due: Expression | None) -> Expression | None:
    """What the reference's value was before it was only given another form."""
    if due is None:
        return None
    called = due.uncopied
    return number_before_call(called, numbered_roles(called.values)) or called


def maker_before_casts(each: Expression) -> Expression | None:
    """What made the elements that a call only gives another type; None of all other calls.

    ``np.asarray(ids)`` is as wrong as ``ids``.
    """
    made: Expression | None = None
    while each.kind == "call":
        same = [inner for role, inner in each.values if role not in CALLED and has_elements_of(inner, each)]
        if len(same) != 1:
            break
        each = made = origin(same[0])
    return made if made is not None and made.file and made.kind in (*FAITHFUL, "item", "display") else None


def maker_of_filling(changed: Expression) -> Expression | None:
    """What made the elements that fill an array, in an order that is right elsewhere."""
    value = taken_as(changed, "value") if changed.kind == "change" else None
    if value is None or value.numbers is None or not has_telling_order(value) or changed.numbers is None:
        return None
    is_all = bool(np.isin(changed.numbers, [*value.numbers, 0.0]).all())
    made = origin(value)
    return made if is_all and made.file and made.kind in (*FAITHFUL, "item") else None


def cast_number(each: Expression) -> Expression | None:
    """What a call like ``int(x)`` gives another type."""
    return number_before_call(each, each.values) if each.kind == "call" and each.values else None


def number_before_call(each: Expression, known: Sequence[tuple[str, Expression]]) -> Expression | None:
    """What a common or a drawn number is only another form of.

    ``float(x)`` or ``x.item()`` is as wrong as ``x``. To the last digit, and no other numbers: these are compared themselves.
    """
    given = _given_alone(each, known)
    if given is None or given.numbers is None or each.numbers is None or given.size != 1:
        return None
    if not is_common_number(each) and not is_drawn(given):
        return None
    return given if np.array_equal(given.numbers, each.numbers) else None


def _given_alone(each: Expression, known: Sequence[tuple[str, Expression]]) -> Expression | None:
    """The one thing that a call is given; None of other calls."""
    given = [inner for role, inner in known if role != "function"]
    return given[0] if each.kind == "call" and len(given) == 1 else None
