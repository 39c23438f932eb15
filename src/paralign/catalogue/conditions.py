"""Conditions on a call's arguments, such as ``padding != 0``.

True, false, or not to be told from the source.

A condition is data of the catalogue: it is parsed, walked and compared; nothing is evaluated as code.
"""

from __future__ import annotations

import ast
import operator
from functools import cache
from typing import TYPE_CHECKING

from paralign.catalogue.binding import UNREADABLE, plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from paralign.catalogue.binding import Bound

_COMPARISONS: dict[type[ast.cmpop], Callable[[object, object], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,  # type: ignore[dict-item]
    ast.LtE: operator.le,  # type: ignore[dict-item]
    ast.Gt: operator.gt,  # type: ignore[dict-item]
    ast.GtE: operator.ge,  # type: ignore[dict-item]
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda left, right: left in right,  # type: ignore[operator]
    ast.NotIn: lambda left, right: left not in right,  # type: ignore[operator]
}


def holds(condition: str, bound: Bound) -> bool | None:
    """Whether a condition holds for a call: True, False, or None where only a run could tell.

    Args:
        condition: ``and``, ``or``, ``not``, comparisons of parameters with literals, ``given(parameter)``,
            ``number(parameter)``; empty: always.
        bound: the call.

    Raises:
        ValueError: the condition has another form.
    """
    return True if not condition else _truth(parsed(condition), bound)


@cache
def parsed(condition: str) -> ast.expr:
    """The tree of a condition.

    Raises:
        ValueError: it is no expression.
    """
    try:
        return ast.parse(condition, mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"no condition: {condition}") from error


def _truth(node: ast.expr, bound: Bound) -> bool | None:
    if isinstance(node, ast.BoolOp):
        return _joined(node, bound)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = _truth(node.operand, bound)
        return None if inner is None else not inner
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("given", "number"):
        return _asked(node.func.id, node, bound)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _compared(node, bound)
    value = _value(node, bound)
    return None if value is UNREADABLE else bool(value)


def _joined(node: ast.BoolOp, bound: Bound) -> bool | None:
    deciding = isinstance(node.op, ast.Or)  # one part that is so decides the whole
    parts = [_truth(each, bound) for each in node.values]
    if deciding in parts:
        return deciding
    return None if None in parts else not deciding


def _asked(question: str, node: ast.Call, bound: Bound) -> bool | None:
    argument = node.args[0] if len(node.args) == 1 else None
    if not isinstance(argument, ast.Name):
        raise ValueError(f"{question}() takes the name of a parameter")  # noqa: TRY004 - a wrong condition, as every other
    if question == "number":
        value = bound.value(argument.id)
        return None if value is UNREADABLE else isinstance(value, int | float)
    if argument.id in bound.given or argument.id in bound.unknown:
        return True
    return None if bound.open else False


def _compared(node: ast.Compare, bound: Bound) -> bool | None:
    left, right = _value(node.left, bound), _value(node.comparators[0], bound)
    if left is UNREADABLE or right is UNREADABLE:
        return None
    compare = _COMPARISONS.get(type(node.ops[0]))
    if compare is None:
        raise ValueError(f"no such comparison: {ast.unparse(node)}")
    try:
        return compare(left, right)
    except TypeError:
        return None


def _value(node: ast.expr, bound: Bound) -> object:
    if isinstance(node, ast.Name):
        return bound.value(node.id)
    try:
        return plain(ast.literal_eval(node))
    except ValueError as error:
        raise ValueError(f"neither a parameter nor a literal: {ast.unparse(node)}") from error
