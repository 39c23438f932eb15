"""Names that stand for a part of a tensor, and are changed in place."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from paralign.port.edits.tensor_results import SPLIT, VIEWED, VIEWS
from paralign.port.names.expression_forms import is_dotted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def is_changed(node: ast.Name, around: Sequence[ast.AST]) -> bool:
    """Whether a name stands where its tensor is changed: ``a.mul_(2)``, ``a[0] = 1``.

    ``around`` ends with the name itself.
    """
    inner: ast.AST = node
    for each in reversed(around[:-1]):
        if isinstance(each, ast.Subscript) and each.value is inner:
            if isinstance(each.ctx, ast.Store):
                return True
        elif isinstance(each, ast.Attribute) and each.value is inner:
            if each.attr == "data":
                inner = each
                continue
            called = around[around.index(each) - 1]
            return _is_in_place(each.attr) and isinstance(called, ast.Call) and called.func is each
        else:
            return isinstance(each, ast.Call) and _is_changing(each, inner)
        inner = each
    return False


def _is_changing(call: ast.Call, given: ast.AST) -> bool:
    """Whether a call changes what it is given first, or what its method is of."""
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    first = bool(call.args) and call.args[0] is given
    return _is_in_place(name) and (first or getattr(call.func, "value", None) is given)


def whole_of(node: ast.Name, around: Sequence[ast.AST]) -> tuple[ast.expr, bool] | None:
    """The tensor that a name is a part of, and whether it is one of a split.

    None where it is none, or nothing else holds the whole any more.
    """
    scopes = [each for each in around if isinstance(each, (*_FUNCTIONS, ast.Module, ast.Lambda, ast.ClassDef))]
    if not scopes or isinstance(scopes[-1], ast.Lambda | ast.ClassDef):
        return None
    scope = scopes[-1]
    before = [each for each in _bindings(node.id, scope) if _place(each[0]) <= _place(node)]
    last = _last(before, around)
    for bound, value, several in last:
        found = _part(value, several=several, scope=scope)
        if found is None:
            continue
        root = _root(found[0])
        if root == node.id or _is_deleted(root, scope) or not _is_held(root, bound, scope, around):
            continue
        return found
    return None


def _is_in_place(name: str) -> bool:
    return name.endswith("_") and not name.endswith("__") and name not in ("requires_grad_", "detach_", "retain_grad_")


def _bindings(name: str, scope: ast.AST) -> Iterator[tuple[ast.stmt, ast.expr, bool]]:
    """What binds a name: statement, value, and whether it is one of the value's."""
    for each in _statements(scope):
        if isinstance(each, ast.Assign):
            for target in each.targets:
                if isinstance(target, ast.Name) and target.id == name:
                    yield each, each.value, False
                elif isinstance(target, ast.Tuple | ast.List) and _binds(target, name):
                    yield each, each.value, True
        elif isinstance(each, ast.AnnAssign) and each.value is not None and _binds(each.target, name):
            yield each, each.value, False
        elif isinstance(each, ast.For | ast.AsyncFor) and _binds(each.target, name):
            yield each, each.iter, True


def _statements(scope: ast.AST) -> Iterator[ast.stmt]:
    """The statements of a function or module, in order; not those of functions within."""
    for each in ast.iter_child_nodes(scope):
        if isinstance(each, ast.stmt):
            yield each
        if not isinstance(each, (*_FUNCTIONS, ast.ClassDef, ast.expr)):
            yield from _statements(each)


def _binds(target: ast.expr, name: str) -> bool:
    return any(isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Store) for each in ast.walk(target))


def _last(before: list[tuple[ast.stmt, ast.expr, bool]], around: Sequence[ast.AST]) -> list[tuple[ast.stmt, ast.expr, bool]]:
    """The last binding that always runs before a place, and those behind it."""
    outer = {id(each) for each in around}
    for at in range(len(before) - 1, -1, -1):
        statement = before[at][0]
        lists = [body for each in around for body in _bodies(each) if any(one is statement for one in body)]
        if id(statement) in outer or lists:
            return before[at:]
    return before


def _bodies(node: ast.AST) -> list[list[ast.stmt]]:
    """The lists of statements of a node."""
    named = (getattr(node, name, None) for name in ("body", "orelse", "finalbody"))
    return [each for each in named if isinstance(each, list)]


def _part(value: ast.expr, *, several: bool, scope: ast.AST) -> tuple[ast.expr, bool] | None:
    """The whole that a value is a part of, and whether it was split."""
    if several:
        return _split(value, scope) or (None if isinstance(value, ast.Call) or not is_dotted(value) else (value, False))
    if isinstance(value, ast.Subscript):
        found = _split(value.value, scope) or _part(value.value, several=False, scope=scope)
        return found or ((value.value, False) if is_dotted(value.value) and _is_plain(value.slice) else None)
    source = _viewed(value)
    if source is None:
        return None
    return _part(source, several=False, scope=scope) or ((source, False) if is_dotted(source) else None)


def _viewed(value: ast.expr) -> ast.expr | None:
    """What an attribute or a call gives a view of; None of another expression."""
    if isinstance(value, ast.Attribute) and value.attr in VIEWS:
        return value.value
    return _given(value) if isinstance(value, ast.Call) and _called(value) in VIEWED else None


def _split(value: ast.expr, scope: ast.AST) -> tuple[ast.expr, bool] | None:
    """What was split into several tensors, and whether they are copies in Paddle."""
    if isinstance(value, ast.Name):
        found = [_split(each, scope) for _, each, several in _bindings(value.id, scope) if isinstance(each, ast.Call) and not several]
        return next((each for each in found if each is not None), None)
    if isinstance(value, ast.Call) and _called(value) in ("enumerate", "zip", "list", "tuple", "reversed"):
        return next((each for each in (_split(given, scope) for given in value.args) if each is not None), None)
    source = _given(value) if _called(value) in SPLIT and isinstance(value, ast.Call) else None
    copied = _called(value) != "unbind"  # whose parts share the tensor's memory whether or not a gradient is asked for
    return (source, copied) if source is not None and is_dotted(source) else None


def _called(value: ast.expr) -> str:
    return getattr(value.func, "attr", getattr(value.func, "id", "")) if isinstance(value, ast.Call) else ""


def _given(call: ast.Call) -> ast.expr | None:
    """The tensor of a call: what its method is of, or what the function is given."""
    func = call.func
    if isinstance(func, ast.Attribute) and getattr(func.value, "id", "") != "torch":
        return func.value
    return call.args[0] if call.args else None


def _is_plain(index: ast.expr) -> bool:
    """Whether an index is numbers and slices: a part by a tensor is a copy."""
    places = index.elts if isinstance(index, ast.Tuple) else [index]
    plain = (ast.Slice, ast.Constant, ast.UnaryOp)
    return all(isinstance(each, plain) and not isinstance(getattr(each, "value", 0), str) for each in places)


def _place(node: ast.stmt | ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _is_deleted(name: str, scope: ast.AST) -> bool:
    return any(isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Del) for each in ast.walk(scope))


def _is_held(name: str, bound: ast.stmt, scope: ast.AST, around: Sequence[ast.AST]) -> bool:
    """Whether the whole may be read after the part was made, by whatever name."""
    own = [value for _, value, several in _bindings(name, scope) if not several]
    made = own and all(isinstance(each, ast.BinOp) or (isinstance(each, ast.Call) and _called(each) not in VIEWED) for each in own)
    if not made or isinstance(scope, ast.Module):
        return True
    loops = [each for each in around if isinstance(each, ast.For | ast.While)]
    behind = (bound.end_lineno, bound.end_col_offset) if not isinstance(bound, ast.For | ast.AsyncFor) else _place(bound.body[0])
    reads = [each for each in ast.walk(scope) if isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Load)]
    return any(_place(each) > behind for each in reads) or any(_place(loop) > _place(own[0]) for loop in loops)
