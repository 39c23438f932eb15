"""What a statement changes in place: whole tensors, and parts of them."""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from paralign.port.edits.held_parts import is_in_place, part_of
from paralign.port.edits.scope_index import functions_of, given_for, own_expressions, place_of, scope_of
from paralign.port.edits.tensor_results import VIEWED, VIEWS
from paralign.port.names.expression_forms import is_kept_form

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paralign.port.edits.scope_index import Functions, Scope

#: statements whose expressions run once, before what they hold
_SIMPLE = (ast.Assert, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return)

#: statements whose head is an expression that may change something
HEADED = (ast.If, ast.While, ast.For, ast.AsyncFor, ast.With, ast.AsyncWith, ast.Match)

#: other names of a tensor that a function of the file changes
_DEEP = 4

#: functions and layers that may change their input, and the place of ``inplace`` among their arguments
_INPLACE = {
    "relu": 1, "relu6": 1, "selu": 1, "silu": 1, "mish": 1, "hardswish": 1, "hardsigmoid": 1, "elu": 2, "celu": 2, "leaky_relu": 2,
    "dropout": 3, "dropout1d": 3, "dropout2d": 3, "dropout3d": 3, "alpha_dropout": 3, "feature_alpha_dropout": 3, "hardtanh": 3,
    "ReLU": 0, "ReLU6": 0, "SELU": 0, "SiLU": 0, "Mish": 0, "Hardswish": 0, "Hardsigmoid": 0, "ELU": 1, "CELU": 1, "LeakyReLU": 1,
    "Dropout": 1, "Dropout1d": 1, "Dropout2d": 1, "Dropout3d": 1, "AlphaDropout": 1, "FeatureAlphaDropout": 1, "Hardtanh": 2,
}  # fmt: skip


class Change(NamedTuple):
    """A tensor that is changed, and what is written of it, by its index.

    ``past`` where no gradient sees it: through ``.data``, or by what starts parameters. ``late`` where a lambda does it, which
    runs nobody knows when. ``call`` is what changes it, where that is no assignment.
    """

    whole: ast.expr
    at: ast.expr | None = None
    past: bool = False
    late: bool = False
    call: ast.Call | None = None


def changes_of(statement: ast.stmt, module: ast.AST | None = None) -> list[Change]:
    """The tensors that a statement changes in place, by functions of the file too."""
    if not isinstance(statement, (*_SIMPLE, *HEADED)):
        return []
    found = []
    if isinstance(statement, _SIMPLE):
        found += [each for target in _targets(statement) if (each := _written(target, sign=isinstance(statement, ast.AugAssign)))]
    for node, hidden in _calls(statement):
        changed = [*_changed_by(node), *_changed_within(node, module)]
        if hidden is None:
            found += [each._replace(call=node) for each in changed]
        else:
            found += [each._replace(late=True) for each in changed if _root(each.whole) not in hidden]
    return list({(ast.dump(each.whole), each.past): each for each in reversed(found)}.values())


def _targets(statement: ast.stmt) -> Iterator[ast.expr]:
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    for each in targets:
        if isinstance(each, ast.Tuple | ast.List):
            yield from each.elts
        elif each is not None:
            yield each


def _written(target: ast.expr, *, sign: bool) -> Change | None:
    """What an assignment writes into; a sign changes the whole of a name."""
    if isinstance(target, ast.Subscript) and not isinstance(getattr(target.slice, "value", None), str):
        return _changed(target)
    return Change(target) if sign and is_kept_form(target) else None


def _calls(statement: ast.stmt) -> Iterator[tuple[ast.Call, frozenset[str] | None]]:
    """The calls of a statement's own expressions; the parameters of lambdas around each."""
    waiting: list[tuple[ast.AST, frozenset[str] | None]] = [(each, None) for each in own_expressions(statement)]
    while waiting:
        node, hidden = waiting.pop()
        if isinstance(node, ast.Call):
            yield node, hidden
        if isinstance(node, ast.Lambda):
            hidden = (hidden or frozenset()) | {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
        waiting += [(each, hidden) for each in ast.iter_child_nodes(node)]


def _changed_by(call: ast.Call) -> Iterator[Change]:
    """What a call changes: its object, what a function is given first, or ``out``."""
    func = call.func
    for each in call.keywords:
        if each.arg == "out" and (found := _changed(each.value)):
            yield found
    name = getattr(func, "attr", getattr(func, "id", ""))
    if is_set_in_place(call) is not None and name[:1].islower() and call.args and (found := _changed(call.args[0])):
        yield found
    if not is_in_place(name):
        return
    of_module = isinstance(func, ast.Name) or _module_of(func) in ("torch", "F", "functional", "init")
    node = (call.args[0] if call.args else None) if of_module else func.value if isinstance(func, ast.Attribute) else None
    found = _changed(node) if node is not None else None
    if found:
        yield found._replace(past=found.past or _module_of(func) == "init")


def _changed_within(call: ast.Call, module: ast.AST | None) -> Iterator[Change]:
    """What a function of the file changes of what it is given."""
    if module is None:
        return
    for function in _changing(module).get(_name_of(call), []):
        for name in _changed_parameters(module).get(id(function), ()):
            given = given_for(name, call, function)
            found = _changed(given) if given is not None else None
            if found:
                yield found


@lru_cache(maxsize=4)
def _changed_parameters(module: ast.AST) -> dict[int, set[str]]:
    """The parameters that functions change in place, by themselves or by one another."""
    functions = functions_of(module)
    every = [each for named in functions.values() for each in named]
    found = {id(each): _changed_here(each) for each in every}
    calls: dict[str, list[tuple[ast.FunctionDef | ast.AsyncFunctionDef, ast.Call]]] = {}
    for outer in every:
        for call in ast.walk(outer):
            if isinstance(call, ast.Call) and _name_of(call) in functions:
                calls.setdefault(_name_of(call), []).append((outer, call))
    waiting = [each for each in every if found[id(each)]]
    while waiting:
        inner = waiting.pop()
        for outer, call in calls.get(inner.name, []):
            for name in [*found[id(inner)]]:
                given = given_for(name, call, inner)
                change = _changed(given) if given is not None else None
                own = _parameter_of(_root(change.whole), place_of(call), scope_of(outer), 0) if change is not None else ""
                if own and own not in found[id(outer)]:
                    found[id(outer)].add(own)
                    waiting.append(outer)
    return found


@lru_cache(maxsize=4)
def _changing(module: ast.AST) -> Functions:
    """The functions of a file that change a parameter, by their names."""
    changed = _changed_parameters(module)
    kept = {name: [each for each in functions if changed[id(each)]] for name, functions in functions_of(module).items()}
    return {name: functions for name, functions in kept.items() if functions}


def _changed_here(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """The parameters of a function that its own statements change in place."""
    scope, found = scope_of(function), set()
    for each in ast.walk(function):
        for change in changes_of(each) if isinstance(each, ast.stmt) else []:
            own = _parameter_of(ast.unparse(change.whole), place_of(each), scope, 0) if isinstance(each, ast.stmt) else ""
            found |= {own} if own else set()
    return found


def _parameter_of(name: str, at: tuple[int, int], scope: Scope, depth: int) -> str:
    """The parameter that a name stands for at a place, or is a part of; else empty."""
    before = [each for each in scope.bindings.get(name, []) if place_of(each.statement) < at]
    if name in scope.given and not before:
        return name
    if not before or depth > _DEEP:
        return ""
    last = before[-1]
    part = part_of(last.value, several=last.several, scope=scope)
    whole = part.tensor if part is not None else last.value if isinstance(last.value, ast.Name) and not last.several else None
    return _parameter_of(_root(whole), place_of(last.statement), scope, depth + 1) if whole is not None else ""


def _name_of(call: ast.Call) -> str:
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _module_of(func: ast.expr) -> str:
    """The last name of the module that a function is taken from, as programs call it."""
    value = func.value if isinstance(func, ast.Attribute) else None
    return getattr(value, "attr", getattr(value, "id", ""))


def _changed(node: ast.expr) -> Change | None:
    """The tensor that is changed where an expression of it is."""
    index, past, direct = None, False, True
    while not is_kept_form(node) or (isinstance(node, ast.Attribute) and node.attr in {"data", *VIEWS}):
        if isinstance(node, ast.Subscript):
            index, direct = (node.slice if direct else None), False
            node = node.value
        elif isinstance(node, ast.Attribute):
            past, index = past or node.attr == "data", None if node.attr in VIEWS else index
            direct = direct and node.attr not in VIEWS
            if node.attr == "grad":
                return None
            node = node.value
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and (node.func.attr in VIEWED or is_in_place(node.func.attr))
        ):
            whole = is_in_place(node.func.attr)
            index, direct = (index if whole else None), direct and whole
            node = node.func.value
        else:
            return None
    if isinstance(node, ast.Attribute) and node.attr == "grad":
        return None
    return Change(node, index, past)


def is_set_in_place(call: ast.Call) -> ast.expr | None:
    """The argument that lets a function or layer change its input; None where none does."""
    at = _INPLACE.get(getattr(call.func, "attr", getattr(call.func, "id", "")))
    if at is None or any(isinstance(each, ast.Starred) for each in call.args):
        return None
    told = [each.value for each in call.keywords if each.arg == "inplace"] + list(call.args[at : at + 1])
    if not told or (isinstance(told[0], ast.Constant) and not told[0].value):
        return None
    return told[0]


@lru_cache(maxsize=16)
def changed_names(scope: ast.AST) -> frozenset[str]:
    """What statements of a function, and of those within, change in place, as it is written."""
    statements = [each for each in ast.walk(scope) if isinstance(each, ast.stmt)]
    return frozenset(ast.unparse(change.whole) for each in statements for change in changes_of(each))
