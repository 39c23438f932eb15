"""Names, attributes and keys whose tensor may have another name as well."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from paralign.port.edits.kept_tensors import is_stored_new
from paralign.port.edits.scope_index import FUNCTIONS, Scope, place_of, scope_of
from paralign.port.edits.tensor_results import NEW

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from paralign.port.edits.kept_tensors import Kept

#: expressions that give no tensor, or one that nothing else holds
_NEW_FORMS = (
    ast.BinOp, ast.Compare, ast.Constant, ast.Dict, ast.DictComp, ast.GeneratorExp, ast.JoinedStr, ast.Lambda, ast.List, ast.ListComp,
    ast.Set, ast.SetComp,
)  # fmt: skip

#: functions of Python whose results are no tensors, or new ones
_OF_PYTHON = frozenset({
    "abs", "bool", "dict", "float", "int", "len", "list", "pow", "range", "round", "set", "sorted", "str", "sum", "time", "tuple",
})  # fmt: skip

#: methods of dictionaries that give an item
_ITEMS = frozenset({"get", "pop", "setdefault"})

#: attributes that are numbers or sizes
_SIZES = frozenset({"itemsize", "ndim", "shape"})


def is_shared(node: ast.Name, around: Sequence[ast.AST], is_new: Callable[[ast.Call], bool]) -> bool:
    """Whether the tensor of a name that a sign changes may be held by something else.

    It is an argument, an attribute's, an item's, another name's, or was handed on before.
    ``is_new`` tells calls whose results nothing else holds.
    """
    scopes = [each for each in around if isinstance(each, (*FUNCTIONS, ast.Module, ast.Lambda, ast.ClassDef))]
    if not scopes or isinstance(scopes[-1], ast.Lambda | ast.ClassDef):
        return False
    scope = scope_of(scopes[-1])
    before = scope.before(node)
    reaching, alone = scope.reaching(node, around)
    if not before or (len(reaching) == len(before) and not alone and node.id in _parameters(scopes[-1])):
        return True
    loops = [each for each in around if isinstance(each, ast.For | ast.AsyncFor | ast.While)]
    later = [each for each in scope.bindings[node.id] if any(_is_within(place_of(each.statement), loop) for loop in loops)]
    if any(each.several or each.twice or may_be_held(each.value, is_new) for each in (*reaching, *later)):
        return True
    return _is_handed_on(node, scope, place_of(reaching[0].statement), loops)


def item_of(node: ast.Name, around: Sequence[ast.AST]) -> bool:
    """Whether a name stands for what an attribute or a text's key keeps."""
    scopes = [each for each in around if isinstance(each, (*FUNCTIONS, ast.Module))]
    reaching = scope_of(scopes[-1]).reaching(node, around)[0] if scopes else []
    return any(is_kept_item(each.value) for each in reaching if not each.several)


def is_kept_item(node: ast.expr) -> bool:
    """Whether an expression is an attribute, or an item by a text."""
    key = node.slice if isinstance(node, ast.Subscript) else None
    return isinstance(node, ast.Attribute) or isinstance(key, ast.JoinedStr) or isinstance(getattr(key, "value", None), str)


def may_be_held(value: ast.expr, is_new: Callable[[ast.Call], bool]) -> bool:
    """Whether a value may be a tensor that something else holds, or a part of one."""
    if isinstance(value, ast.IfExp | ast.BoolOp):
        choices = value.values if isinstance(value, ast.BoolOp) else [value.body, value.orelse]
        return any(may_be_held(each, is_new) for each in choices)
    if isinstance(value, ast.NamedExpr):
        return may_be_held(value.value, is_new)
    if isinstance(value, ast.UnaryOp):
        return isinstance(value.op, ast.UAdd) and may_be_held(value.operand, is_new)
    if isinstance(value, _NEW_FORMS):
        return False
    if isinstance(value, ast.Attribute | ast.Subscript):
        return not _is_of_sizes(value)
    return not (isinstance(value, ast.Call) and (_is_new_by_name(value) or is_new(value)))


def is_kept_twice(name: str, kept: Kept, is_new: Callable[[ast.Call], bool]) -> bool:
    """Whether what a file keeps under an attribute or key may be held elsewhere too.

    It is if it was stored from elsewhere, or is handed on from there. What a layer registers is part of its state.
    """
    stored = kept.stored.get(name, [])
    if not stored or name in kept.registered or name in kept.handed_on:
        return True
    return any(_is_state(each) or (not is_stored_new(each) and may_be_held(each, is_new)) for each in stored)


def _is_state(value: ast.expr) -> bool:
    called = getattr(value.func, "attr", getattr(value.func, "id", "")) if isinstance(value, ast.Call) else ""
    return called in ("Buffer", "Parameter")


def _is_new_by_name(call: ast.Call) -> bool:
    if isinstance(call.func, ast.Name):
        return call.func.id in _OF_PYTHON
    if not isinstance(call.func, ast.Attribute):
        return False
    owner = getattr(call.func.value, "id", "")
    if owner == "self":  # a layer or method of the program's own: self.norm(x)
        return False
    return owner in ("np", "numpy", "math", "random", "time") or call.func.attr in NEW


def _is_of_sizes(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Attribute) and node.attr in _SIZES:
            return True
        node = node.value
    return False


def _parameters(scope: ast.AST) -> set[str]:
    if not isinstance(scope, FUNCTIONS):
        return set()
    given = scope.args
    return {each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg) if each is not None}


def _is_within(place: tuple[int, int], node: ast.stmt) -> bool:
    return place_of(node) <= place < (node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)


def _is_handed_on(node: ast.Name, scope: Scope, start: tuple[int, int], loops: Sequence[ast.For | ast.AsyncFor | ast.While]) -> bool:
    """Whether something may have kept a name's tensor between its binding and a place."""
    around = [loop for loop in loops if not _is_within(start, loop)]
    for each in scope.reads.get(node.id, []):
        if each.within:
            return True
        if not each.passing and (start < each.place < place_of(node) or any(_is_within(each.place, loop) for loop in around)):
            return True
    return False
