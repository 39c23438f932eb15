"""Parts of a tensor that are read after the whole was changed in place."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING

from paralign.port.edits.held_parts import is_in_place, part_of
from paralign.port.edits.kept_tensors import is_stored_new
from paralign.port.edits.scope_index import FUNCTIONS, Binding, Scope, place_of, scope_of
from paralign.port.edits.tensor_results import VIEWED

if TYPE_CHECKING:
    from collections.abc import Sequence


def kind_of_read_part(statement: ast.stmt, around: Sequence[ast.AST]) -> tuple[ast.expr | None, str]:
    """The tensor that a statement changes, and how a part that is read later became one.

    None where no name stands for a part of it that is read later.
    """
    changed, index = _changed_by(statement)
    scopes = [each for each in around if isinstance(each, (*FUNCTIONS, ast.Module, ast.Lambda, ast.ClassDef))]
    if changed is None or not scopes or isinstance(scopes[-1], ast.Lambda | ast.ClassDef):
        return None, ""
    scope, spelled = scope_of(scopes[-1]), ast.unparse(changed)
    loops = [each for each in around if isinstance(each, ast.For | ast.AsyncFor | ast.While)]
    for name, each, kind in _parts_of(scope).get(spelled, []):
        if place_of(each.statement) >= place_of(statement) or _is_bound_between(spelled, scope, each.statement, statement):
            continue
        if _is_made_anew(name, each.statement, statement, scope):
            continue
        if index is not None and not _meets(each.value, changed, index):
            continue
        if kind in ("view", "index") and _is_shift(statement) and (kind == "index" or not _is_view(spelled, statement, scope)):
            continue
        if _is_read_after(name, each, statement, scope, loops):
            return changed, kind
    return None, ""


@lru_cache(maxsize=16)
def _parts_of(scope: Scope) -> dict[str, list[tuple[str, Binding, str]]]:
    """The names that stand for parts, by their wholes as these are written."""
    found: dict[str, list[tuple[str, Binding, str]]] = defaultdict(list)
    for name, bound in scope.bindings.items():
        for each in bound:
            part = part_of(each.value, several=each.several, scope=scope)
            for spelled in {ast.unparse(whole) for whole in (part.tensor, *part.others)} - {name} if part is not None else set():
                found[spelled].append((name, each, part.kind if part is not None else ""))
    return found


def _changed_by(statement: ast.stmt) -> tuple[ast.expr | None, ast.expr | None]:
    """The tensor that a statement changes, and the index of the part of it that it writes."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        return (target.value, target.slice) if isinstance(target, ast.Subscript) and _is_plain(target.value) else (None, None)
    if isinstance(statement, ast.AugAssign):
        target = statement.target
        if isinstance(target, ast.Subscript) and _is_plain(target.value):
            return target.value, target.slice
        return (target, None) if _is_plain(target) else (None, None)
    node = statement.value if isinstance(statement, ast.Expr) else None
    methods = False
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        methods = methods or is_in_place(node.func.attr)
        node = node.func.value
    if not methods:
        return None, None
    if isinstance(node, ast.Subscript) and _is_plain(node.value):
        return node.value, node.slice
    return (node, None) if isinstance(node, ast.expr) and _is_plain(node) else (None, None)


def _is_view(name: str, statement: ast.stmt, scope: Scope) -> bool:
    """Whether a tensor is a view, which a sign makes anew: its parts stay as they were."""
    before = [each for each in scope.bindings.get(name, []) if place_of(each.statement) < place_of(statement)]
    value = before[-1].value if before else None
    called = getattr(value.func, "attr", getattr(value.func, "id", "")) if isinstance(value, ast.Call) else ""
    return isinstance(statement, ast.AugAssign) and called in VIEWED


def _is_shift(statement: ast.stmt) -> bool:
    """Whether a statement adds a literal number, which changes no gradient."""
    if isinstance(statement, ast.AugAssign):
        return isinstance(statement.op, ast.Add | ast.Sub) and isinstance(statement.value, ast.Constant)
    call = statement.value if isinstance(statement, ast.Expr) else None
    method = call.func if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
    if not isinstance(call, ast.Call) or method is None or isinstance(method.value, ast.Call):
        return False
    return method.attr in ("add_", "sub_") and all(isinstance(each, ast.Constant) for each in call.args)


def _is_plain(node: ast.expr) -> bool:
    """Whether an expression is a name, or what an attribute or a text's key keeps."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Attribute) and node.attr in ("data", "grad"):
            return False
        if isinstance(node, ast.Subscript) and not isinstance(getattr(node.slice, "value", None), str):
            return False
        node = node.value
    return isinstance(node, ast.Name)


def _meets(value: ast.expr, whole: ast.expr, index: ast.expr) -> bool:
    """Whether a write at an index certainly meets the elements of a part."""
    places = index.elts if isinstance(index, ast.Tuple) else [index]
    full = ast.unparse(index) in (":", "...")
    if full or not isinstance(value, ast.Subscript) or ast.unparse(value.value) != ast.unparse(whole):
        return True
    plain = all(isinstance(each, ast.Constant | ast.UnaryOp | ast.Slice) for each in places)
    return plain and ast.unparse(value.slice) == ast.unparse(index)


def _is_bound_between(spelled: str, scope: Scope, first: ast.stmt, last: ast.stmt) -> bool:
    return any(place_of(first) < place_of(each.statement) < place_of(last) for each in scope.bindings.get(spelled, []))


def _is_made_anew(name: str, first: ast.stmt, last: ast.stmt, scope: Scope) -> bool:
    """Whether a name that stood for a part is always given a new tensor before a statement."""
    between = [each for each in scope.bindings.get(name, []) if place_of(first) < place_of(each.statement) < place_of(last)]
    sure = [each for each in between if scope.lists.get(id(each.statement)) == scope.lists.get(id(first))]
    return any(not each.several and is_stored_new(each.value) for each in sure)


def _is_read_after(name: str, bound: Binding, statement: ast.stmt, scope: Scope, loops: Sequence[ast.stmt]) -> bool:
    """Whether a part's name is read behind a statement, before it is bound anew."""
    end, rebound = _end_of(statement), scope.rebound(name, statement)
    around = [each for each in loops if not place_of(each) <= place_of(bound.statement) < _end_of(each)]
    for each in scope.reads.get(name, []):
        if each.within or any(place_of(loop) <= each.place < _end_of(loop) for loop in around):
            return True
        if each.place >= end and (rebound is None or each.place < rebound):
            return True
    return False


def _end_of(node: ast.stmt) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
