"""What a file keeps under attributes and keys: tensors of their own, or parts."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING

from paralign.port.edits.scope_index import is_passing
from paralign.port.edits.tensor_results import COPIED, NEW, OF_TENSORS, VIEWED, VIEWS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: attributes of layers, which hold parameters
_PARAMETERS = frozenset({"weight", "bias"})

#: calls that keep their second argument under the text of their first one
_KEEPING = frozenset({"register_buffer", "register_parameter", "setdefault"})

#: calls that give a tensor that nothing else holds, beside ``NEW``
_MADE = frozenset({
    "Parameter", "arange", "clone", "empty", "empty_like", "eye", "full", "full_like", "new_empty", "new_full", "new_ones", "new_tensor",
    "new_zeros", "ones", "ones_like", "rand", "rand_like", "randint", "randn", "randn_like", "randperm", "tensor", "zeros", "zeros_like",
})  # fmt: skip


class Kept:
    """The values that a file stores, by attribute or key, and those that it gives names."""

    def __init__(self, tree: ast.AST) -> None:
        self.stored: dict[str, list[ast.expr]] = defaultdict(list)
        self.spelled: dict[str, list[ast.expr]] = defaultdict(list)
        self._keyed: list[ast.expr] = []
        #: names that are a layer's state, and those whose tensors are given other names
        self.registered: set[str] = set()
        self.handed_on: set[str] = set()
        self._note_handed_on(tree, [])
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and len(node.targets) > 1:  # each of them holds it
                self.handed_on |= {name for each in node.targets if (name := kept_name(each))}
            for target, value in bound_by(node):
                self.spelled[ast.unparse(target)].append(value)
                if name := kept_name(target):
                    self.stored[name].append(value)
                    self._keyed += [value] if isinstance(target, ast.Subscript) else []
            if isinstance(node, ast.Dict | ast.DictComp):
                self._keyed += node.values if isinstance(node, ast.Dict) else [node.value]
            for name, value in _handed(node):
                self.stored[name].append(value)
                self.registered |= {name} if _called(node).startswith("register_") else set()

    def _note_handed_on(self, node: ast.AST, around: list[ast.AST]) -> None:
        """Note the attributes and keys whose tensors something else may keep."""
        name = kept_name(node) if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Load) else ""
        called = bool(around) and isinstance(around[-1], ast.Call) and around[-1].func is node
        if name and not called and isinstance(node, ast.expr) and (_is_given_back(node, around) or not is_passing(node, around)):
            self.handed_on.add(name)
        around.append(node)
        for each in ast.iter_child_nodes(node):
            self._note_handed_on(each, around)
        around.pop()

    def is_made(self, name: str) -> bool:
        """Whether all that is stored under a name is made there, and no part of another tensor."""
        values = self.stored.get(name, [])
        return bool(values) and all(map(is_stored_new, values))

    def is_copied(self, name: str) -> bool:
        """Whether something stored under a name may be a view that Paddle copies."""
        return any(self._is_copied(each, 0) for each in self.stored.get(name, []))

    @cached_property
    def has_copies(self) -> bool:
        """Whether something that a dictionary holds may be such a view."""
        return any(self._is_copied(each, 0) for each in self._keyed)

    def _is_copied(self, value: ast.expr, depth: int) -> bool:
        if isinstance(value, ast.IfExp):
            return self._is_copied(value.body, depth) or self._is_copied(value.orelse, depth)
        if isinstance(value, ast.Name) and depth < _DEEP:
            return any(self._is_copied(each, depth + 1) for each in self.spelled.get(value.id, []))
        if isinstance(value, ast.Subscript) or (isinstance(value, ast.Attribute) and value.attr in VIEWS):
            return self._is_copied(value.value, depth)
        called = _called(value)
        if called in COPIED:
            return True
        if called not in VIEWED or not isinstance(value, ast.Call):
            return False
        return any(self._is_copied(each, depth) for each in (getattr(value.func, "value", value.func), *value.args[:1]))


#: names of names that are looked up
_DEEP = 3


def kept_name(node: ast.AST) -> str:
    """The attribute or key that an expression takes a tensor from.

    Empty for another expression.
    """
    if isinstance(node, ast.Attribute):
        return "" if node.attr in VIEWS | OF_TENSORS | _PARAMETERS else node.attr
    key = node.slice if isinstance(node, ast.Subscript) else None
    if isinstance(key, ast.JoinedStr):
        return "*"
    return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else ""


def bound_by(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What an assignment binds: ``a, b = 1, 2`` each to its own value.

    Where the values are not told apart, each to the whole.
    """
    if isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        yield node.target, node.value
    if not isinstance(node, ast.Assign):
        return
    for target in node.targets:
        yield target, node.value
        if not isinstance(target, ast.Tuple | ast.List):
            continue
        paired = isinstance(node.value, ast.Tuple | ast.List) and len(node.value.elts) == len(target.elts)
        values = node.value.elts if paired and isinstance(node.value, ast.Tuple | ast.List) else [node.value] * len(target.elts)
        yield from zip(target.elts, values, strict=True)


def _handed(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """What a display or a call keeps under a text."""
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value, value
    if not isinstance(node, ast.Call):
        return
    yield from ((each.arg, each.value) for each in node.keywords if each.arg is not None)
    given: Sequence[ast.expr] = node.args
    if _called(node) == "setattr":
        given = given[1:]
    elif _called(node) not in _KEEPING:
        return
    if len(given) > 1 and isinstance(given[0], ast.Constant) and isinstance(given[0].value, str):
        yield given[0].value, given[1]


def _is_given_back(node: ast.AST, around: Sequence[ast.AST]) -> bool:
    """Whether a function gives an expression back, or a part of it, alone or among others."""
    for each in reversed(around):
        part = isinstance(each, ast.Subscript) and each.value is node
        viewed = isinstance(each, ast.Attribute) and (each.attr in VIEWED or each.attr in VIEWS)
        called = isinstance(each, ast.Call) and isinstance(node, ast.Attribute) and each.func is node and node.attr in VIEWED
        if not (part or viewed or called or isinstance(each, ast.Tuple | ast.List | ast.Dict)):
            return isinstance(each, ast.Return | ast.Yield)
        node = each
    return False


def _called(value: ast.AST) -> str:
    return getattr(value.func, "attr", getattr(value.func, "id", "")) if isinstance(value, ast.Call) else ""


def is_stored_new(value: ast.expr) -> bool:
    """Whether a value is no tensor, or one that nothing else holds."""
    if isinstance(value, ast.IfExp):
        return is_stored_new(value.body) and is_stored_new(value.orelse)
    if isinstance(value, ast.UnaryOp):
        return isinstance(value.op, ast.USub | ast.Invert | ast.Not)
    own = isinstance(value, ast.Call) and getattr(getattr(value.func, "value", None), "id", "") == "self"  # the program's own: self.norm(x)
    return isinstance(value, ast.Constant | ast.BinOp | ast.Compare | ast.JoinedStr) or (_called(value) in _MADE | NEW and not own)
