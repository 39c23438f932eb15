"""What keeps a tensor that has no name: a list, a dictionary, an object."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

#: functions of Python that make a container of what they are given
_GATHERING = frozenset(
    {"OrderedDict", "defaultdict", "deque", "dict", "enumerate", "iter", "list", "reversed", "set", "sorted", "tuple", "zip"}
)

#: methods and functions that store what they are given
_STORING = frozenset({"add", "append", "appendleft", "extend", "insert", "partial", "put", "setattr", "setdefault", "update"})

#: what is made of expressions, and is kept where it stands
_DISPLAYS = (ast.List, ast.Tuple, ast.Set, ast.Dict)

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)

#: what gives one of its expressions on
_GIVING_ON = (ast.IfExp, ast.BoolOp, ast.Starred, ast.keyword)


def keeper_of(node: ast.AST, around: Sequence[ast.AST]) -> str | None:
    """The name of what keeps a tensor that stands in a container; '' where it has none.

    None where no container is given it.
    """
    inner, gathered = node, False
    for parent in reversed(around):
        if isinstance(parent, _COMPREHENSIONS):
            if inner is not (parent.value if isinstance(parent, ast.DictComp) else parent.elt):
                return None
            gathered = True
        elif isinstance(parent, _GIVING_ON):
            if isinstance(parent, ast.IfExp) and inner is parent.test:
                return None
        elif isinstance(parent, _DISPLAYS) or (isinstance(parent, ast.Call) and gathers(parent) and parent.func is not inner):
            gathered = True
        elif isinstance(parent, ast.Call):
            return "" if parent.func is not inner and _is_storing(parent) else None
        else:
            return _target_of(parent, inner, gathered=gathered)
        inner = parent
    return None


def gathers(call: ast.Call) -> bool:
    """Whether a call makes a container of Python's."""
    return _called(call) in _GATHERING


def extends(call: ast.Call) -> bool:
    """Whether a call gives a container each of several things."""
    return _called(call) in ("extend", "update")


def _called(call: ast.Call) -> str:
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def _is_storing(call: ast.Call) -> bool:
    """Whether a call keeps what it is given: a container's method, or the making of an object."""
    called = _called(call)
    if called in _STORING:
        module = getattr(getattr(call.func, "value", None), "id", "") in ("torch", "F")
        return not module and (isinstance(call.func, ast.Attribute) or called in ("partial", "setattr"))
    return called.lstrip("_")[:1].isupper()


def _target_of(parent: ast.AST, inner: ast.AST, *, gathered: bool) -> str | None:
    """As ``keeper_of``, of the statement or expression around a value."""
    if isinstance(parent, ast.Yield):
        return ""
    if isinstance(parent, ast.NamedExpr | ast.AugAssign):
        return getattr(parent.target, "id", "") if gathered else None
    if not isinstance(parent, ast.Assign | ast.AnnAssign) or inner is not parent.value:
        return None
    targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
    if any(isinstance(each, ast.Attribute) or (isinstance(each, ast.Subscript) and _is_of_items(each)) for each in targets):
        return ""
    names = [each.id for each in targets if isinstance(each, ast.Name)]
    return names[0] if gathered and names else None


def _is_of_items(target: ast.Subscript) -> bool:
    """Whether an assignment to an item may keep the value, by the item's form."""
    return not isinstance(target.slice, ast.Slice | ast.Tuple)
