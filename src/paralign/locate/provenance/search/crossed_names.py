"""A parameter that is given another one of the caller's.

``helper(cin)`` for ``helper(cout)``. The caller has a parameter of that very name, and with its value the reference's number comes out.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from paralign.locate.provenance.values.value_graph import COMMON
from paralign.locate.reaching import reached

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from paralign.locate.provenance.values.value_graph import Expression

#: how far apart in the recording the parameters of one call may be
_NEAR = 24

#: operations on numbers that are done again with another operand
_DONE_AGAIN: dict[str, Callable[[float, float], float]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mult": operator.mul,
    "Div": operator.truediv,
    "FloorDiv": operator.floordiv,
    "Pow": operator.pow,
}


def place(chain: Sequence[Expression], own: Sequence[Expression], is_right: Callable[[float], bool]) -> Expression | None:
    """The call that hands another of the caller's parameters over.

    None where none explains what is wrong.

    Args:
        chain: from the expression at fault to the wrong value.
        own: the candidate's expressions.
        is_right: whether the reference has a number.
    """
    for parameter, namesake in _crossed(chain, own):
        numbers = {parameter: _number(namesake)}
        changed = [made for each in chain if (made := _made_again(each, numbers)) is not None and made != _number(each)]
        if changed and changed[-1] not in COMMON and is_right(changed[-1]):  # the furthest of what can be computed again
            return parameter
    return None


def _crossed(chain: Sequence[Expression], own: Sequence[Expression]) -> Iterator[tuple[Expression, Expression]]:
    """Parameters that were given one of another name, each beside the caller's namesake."""
    behind = reached([chain[0]], lambda e: [] if e.kind == "parameter" else e.operands)
    for each in dict.fromkeys((*chain, *behind)):
        if each.kind != "parameter" or not each.inputs or _number(each) is None:
            continue
        name, given = each.inputs[0]
        if given.kind != "parameter" or not given.inputs or given.inputs[0][0] == name:
            continue
        near = own[max(0, given.number - _NEAR) : given.number + _NEAR]
        namesakes = [e for e in near if _is_beside(e, given) and e.inputs[0][0] == name and _number(e) is not None]
        if len(namesakes) == 1 and _number(namesakes[0]) != _number(given):
            yield each, namesakes[0]


def _is_beside(each: Expression, given: Expression) -> bool:
    """Whether two parameters are of one call."""
    return each.kind == "parameter" and bool(each.inputs) and (each.source, each.label) == (given.source, given.label)


def _made_again(each: Expression, numbers: dict[Expression, float | None]) -> float | None:
    """What a number comes to with other numbers for some that it is made of.

    None where nobody can tell.
    """
    if each not in numbers:
        numbers[each] = _number(each)
        if each.is_copy:
            numbers[each] = _made_again(each.values[0][1], numbers)
        elif each.kind == "operation" and each.label in _DONE_AGAIN:
            numbers[each] = _done_again(each.label, [_made_again(inner, numbers) for _, inner in each.values])
    return numbers[each]


def _done_again(word: str, operands: Iterable[float | None]) -> float | None:
    known = [each for each in operands if each is not None]
    if len(known) != 2:  # noqa: PLR2004 - two operands
        return None
    try:
        made = _DONE_AGAIN[word](*known)
    except (ArithmeticError, ValueError):
        return None
    return None if isinstance(made, complex) else made


def _number(each: Expression) -> float | None:
    """The number that a value is; None of all else."""
    value = each.scalar
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
