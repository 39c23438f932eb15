"""Lists and dictionaries that hold numbers for as long as a program runs."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING

from paralign.port.edits.scope_index import FUNCTIONS, scope_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: functions of Python that give numbers
_NUMBERS = frozenset({"float", "int", "len", "ord"})

#: methods of a tensor that give numbers
_OF_TENSORS = frozenset({"dim", "item", "nelement", "numel"})

#: functions of Python that store nothing in what they are given
_READING = frozenset({
    "all", "any", "enumerate", "len", "list", "max", "min", "print", "repr", "reversed", "sorted", "str", "sum", "tuple", "zip",
})  # fmt: skip

#: modules whose functions store nothing in what they are given
_COPYING = frozenset({"json", "math", "np", "numpy", "torch"})

#: methods that store nothing
_ASKING = frozenset({"copy", "count", "get", "index", "items", "keys", "most_common", "pop", "remove", "reverse", "sort", "values"})

#: methods that store what they are given
_STORING = frozenset({"append", "insert"})


def is_of_numbers(container: ast.expr, around: Sequence[ast.AST]) -> bool:
    """Whether a name stands for a list or dictionary of numbers, by all that is done with it."""
    if not isinstance(container, ast.Name):
        return False
    for scope in reversed([each for each in around if isinstance(each, (*FUNCTIONS, ast.Module, ast.Lambda))]):
        if container.id in _parameters(scope):
            return False
        bound = [] if isinstance(scope, ast.Lambda) else scope_of(scope).bindings.get(container.id, [])
        if bound:
            values = [each.value for each in bound if not isinstance(each.value, ast.Constant) or each.value.value is not None]
            if not values or any(each.several for each in bound):
                return False
            arrays = all(map(_is_array, values))
            return arrays or (all(map(_holds_numbers, values)) and all(_keeps_numbers(*use) for use in _uses(scope).get(container.id, ())))
    return False


def _parameters(scope: ast.AST) -> set[str]:
    if not isinstance(scope, (*FUNCTIONS, ast.Lambda)):
        return set()
    return {each.arg for each in ast.walk(scope.args) if isinstance(each, ast.arg)}


@lru_cache(maxsize=16)
def _uses(scope: ast.AST) -> Mapping[str, list[tuple[ast.AST, tuple[ast.AST, ...]]]]:
    """Where each name stands in a scope and those within, with the four nodes around it."""
    found: dict[str, list[tuple[ast.AST, tuple[ast.AST, ...]]]] = defaultdict(list)

    def walk(node: ast.AST, around: tuple[ast.AST, ...]) -> None:
        if isinstance(node, ast.Name):
            found[node.id].append((node, around))
        elif isinstance(node, ast.Global | ast.Nonlocal):
            for name in node.names:
                found[name].append((node, around))
        for each in ast.iter_child_nodes(node):
            walk(each, (*around[-3:], node))

    walk(scope, ())
    return found


def _keeps_numbers(node: ast.AST, around: Sequence[ast.AST]) -> bool:
    """Whether a place where a name stands gives its container no tensor, and no other name."""
    parent, outer = around[-1], around[-2] if len(around) > 1 else None
    if not isinstance(node, ast.Name) or isinstance(node.ctx, ast.Del):
        return isinstance(node, ast.Name)
    if isinstance(node.ctx, ast.Store):
        return isinstance(outer if isinstance(parent, ast.Tuple) else parent, ast.Assign | ast.AnnAssign)
    if isinstance(parent, ast.Subscript) and parent.value is node and isinstance(parent.ctx, ast.Store):
        return isinstance(outer, ast.Assign | ast.AugAssign) and not isinstance(parent.slice, ast.Slice) and _is_number(outer.value)
    return _is_read(parent, outer)


def _is_read(parent: ast.AST, outer: ast.AST | None) -> bool:
    """Whether a container is read where it stands, and nothing keeps it."""
    if isinstance(parent, ast.Attribute):
        stored = isinstance(outer, ast.Call) and parent.attr in _STORING and all(map(_is_number, outer.args))
        return stored or parent.attr in _ASKING
    if isinstance(parent, ast.Call):
        owner = getattr(getattr(parent.func, "value", None), "id", "")
        return owner in _COPYING or getattr(parent.func, "id", "") in _READING
    reading = (ast.For, ast.comprehension, ast.Return, ast.Compare, ast.FormattedValue, ast.If, ast.Subscript)
    return isinstance(outer if isinstance(parent, ast.Tuple) else parent, ast.Return if isinstance(parent, ast.Tuple) else reading)


def _is_number(value: ast.expr) -> bool:
    """Whether an expression is a number, whatever its names stand for."""
    if isinstance(value, ast.UnaryOp):
        return _is_number(value.operand)
    if isinstance(value, ast.BinOp | ast.IfExp):
        sides = (value.left, value.right) if isinstance(value, ast.BinOp) else (value.body, value.orelse)
        return all(map(_is_number, sides))
    if isinstance(value, ast.Call):
        of_tensor = isinstance(value.func, ast.Attribute) and (
            value.func.attr in _OF_TENSORS or (value.func.attr == "size" and bool(value.args))
        )
        return of_tensor or getattr(value.func, "id", "") in _NUMBERS
    if isinstance(value, ast.Subscript):
        return isinstance(value.value, ast.Attribute) and value.value.attr == "shape" and not isinstance(value.slice, ast.Slice)
    return isinstance(value, ast.Constant) and isinstance(value.value, int | float | complex | str | bytes)


def _is_array(value: ast.expr) -> bool:
    """Whether a value is an array of numpy or bytes, which hold no tensors."""
    if isinstance(value, ast.BinOp):
        return any(map(_is_array, (value.left, value.right))) and all(
            _is_array(each) or _is_number(each) for each in (value.left, value.right)
        )
    if not isinstance(value, ast.Call):
        return False
    return getattr(getattr(value.func, "value", None), "id", "") in ("np", "numpy") or getattr(value.func, "id", "") == "bytearray"


def _holds_numbers(value: ast.expr) -> bool:
    """Whether a value is a list or dictionary that holds no tensor yet."""
    if isinstance(value, ast.Call):
        called = getattr(value.func, "attr", getattr(value.func, "id", ""))
        numbers = len(value.args) == 1 and getattr(value.args[0], "id", "") in ("int", "float")
        filled = called == "fromkeys" and len(value.args) > 1 and _is_number(value.args[1])
        return _is_array(value) or filled or called == "Counter" or (called == "defaultdict" and numbers)
    if isinstance(value, ast.BinOp):
        sides = [_holds_numbers(each) for each in (value.left, value.right)]
        return _is_array(value) or (any(sides) if isinstance(value.op, ast.Mult) else all(sides))
    if isinstance(value, ast.ListComp | ast.DictComp):
        return _is_number(value.elt if isinstance(value, ast.ListComp) else value.value)
    if isinstance(value, ast.Dict):
        return None not in value.keys and all(map(_is_number, value.values))
    return isinstance(value, ast.List) and all(map(_is_number, value.elts))
