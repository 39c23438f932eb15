"""Names that stand for a part of a tensor, and are changed in place."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from paralign.port.edits.scope_index import FUNCTIONS, Binding, Scope, behind, functions_of, given_for, place_of, scope_of
from paralign.port.edits.tensor_results import COPIED, OF_FORM, OF_LAYERS, OF_NO_ELEMENT, OF_TENSORS, SPLIT, VIEWED, VIEWS
from paralign.port.names.expression_forms import is_dotted, is_kept_form

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: how often functions that call one another are looked at: what one gives passes through one more of them each time
_ROUNDS = 16

_AROUND = ("enumerate", "zip", "list", "tuple", "reversed")


class Whole(NamedTuple):
    """The tensor that a name is a part of.

    ``kind`` is how it became one: "view", "split" (a copy in Paddle where a gradient is asked for), "copy" (one at all times),
    or "index", where the index is known at run time alone.
    """

    tensor: ast.expr
    kind: str
    #: whether it is there wherever the part is
    sure: bool = True
    #: other tensors that it may be a part of instead
    others: tuple[ast.expr, ...] = ()


def is_changed(node: ast.expr, around: Sequence[ast.AST], is_function: Callable[[ast.expr], bool]) -> bool:
    """Whether a tensor stands where elements are changed: ``a.mul_(2)``, ``a[0] = 1``.

    ``around`` ends with the tensor itself. ``is_function`` tells a module's function, which changes what it is given first.
    """
    inner: ast.AST = node
    for each in reversed(around[:-1]):
        if isinstance(each, ast.Attribute) and each.value is inner:
            inner = each if each.attr == "data" else inner  # of a method, the call tells
            continue
        if isinstance(each, ast.Call):
            method = each.func
            if is_function(method) or not isinstance(method, ast.Attribute) or method.value is not inner:
                return _is_given_first(each, inner) and (isinstance(method, ast.Name) or is_function(method))
            if method.attr not in OF_FORM | VIEWED:
                return is_in_place(method.attr)
        elif not isinstance(each, ast.Subscript) or each.value is not inner:
            return False
        elif isinstance(each.ctx, ast.Store):
            return True
        inner = each
    return False


def _is_given_first(call: ast.Call, given: ast.AST) -> bool:
    """Whether a function that changes what it is given first is given that."""
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    return bool(call.args) and call.args[0] is given and is_in_place(name)


def whole_of(node: ast.Name, around: Sequence[ast.AST]) -> Whole | None:
    """The tensor that a name is a part of.

    None where it is none, or nothing else holds the whole any more.
    """
    scopes = [each for each in around if isinstance(each, (*FUNCTIONS, ast.Module, ast.Lambda, ast.ClassDef))]
    if not scopes or isinstance(scopes[-1], ast.Lambda | ast.ClassDef):
        return None
    scope = scope_of(scopes[-1])
    scope.functions = functions_of(scopes[0])
    reaching, alone = scope.reaching(node, around)
    for each in reaching:
        found = part_of(each.value, several=each.several, scope=scope)
        if found is None:
            continue
        roots = [root for tensor in (found.tensor, *found.others) if (root := _root(tensor)) != node.id]
        if not any(root not in scope.deleted and _is_held(root, each, node, scope, around) for root in roots):
            continue
        return found._replace(sure=alone and not found.others and isinstance(found.tensor, ast.Name))
    return None


def is_held(node: ast.Name, around: Sequence[ast.AST]) -> bool:
    """Whether a name is a tensor that something else holds: a layer's, or a tensor's data."""
    scopes = [each for each in around if isinstance(each, (*FUNCTIONS, ast.Module, ast.Lambda, ast.ClassDef))]
    if not scopes or isinstance(scopes[-1], ast.Lambda | ast.ClassDef):
        return False
    return any(_holds(each.value, several=each.several) for each in scope_of(scopes[-1]).reaching(node, around)[0])


def _holds(value: ast.expr, *, several: bool) -> bool:
    """Whether a value is, or gives one by one, tensors that something else holds."""
    if several:
        called = [each for each in ast.walk(value) if isinstance(each, ast.Call)]
        return any(_called(each) in OF_LAYERS and isinstance(each.func, ast.Attribute) for each in called)
    if isinstance(value, ast.Attribute):
        return value.attr in OF_TENSORS and is_dotted(value)
    detached = isinstance(value, ast.Call) and _called(value) == "detach" and not value.args
    return detached and isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and is_dotted(value.func.value)


def is_in_place(name: str) -> bool:
    """Whether a function or method changes elements, by its name."""
    return name.endswith("_") and not name.endswith("__") and name not in OF_FORM | OF_NO_ELEMENT | {"retain_grad_"}


def part_of(value: ast.expr, *, several: bool, scope: Scope) -> Whole | None:
    """The whole that a value is a part of."""
    if isinstance(value, ast.IfExp):
        return _one_of((value.body, value.orelse), several=several, scope=scope)
    if several:
        return _split(value, scope) or (None if isinstance(value, ast.Call) or not is_kept_form(value) else Whole(value, "view"))
    if isinstance(value, ast.Name):
        return _of_another_name(value, scope)
    if isinstance(value, ast.Subscript):
        return _by_index(value, scope)
    source = _viewed(value)
    if source is None:
        return _of_function(value, scope, ast.Return) if isinstance(value, ast.Call) else None
    found = None if isinstance(source, ast.Name) else part_of(source, several=False, scope=scope)
    found = found or (Whole(source, "view") if is_kept_form(source) else None)
    return found._replace(kind="copy") if found is not None and _called(value) in COPIED else found


def _of_another_name(name: ast.Name, scope: Scope) -> Whole | None:
    """The whole of a part that a name stands for, where another name is given it."""
    before = [each for each in scope.before(name) if _end_of(each.statement) <= place_of(name)]
    return part_of(before[-1].value, several=before[-1].several, scope=scope) if before else None


def _by_index(value: ast.Subscript, scope: Scope) -> Whole | None:
    """The whole of what an index takes."""
    kind = _kind_of(value.slice, scope)
    found = _split(value.value, scope) or part_of(value.value, several=False, scope=scope)
    if kind and found is not None and not isinstance(value.value, ast.Name):
        return found._replace(kind=kind) if kind == "index" and found.kind == "view" else found
    return Whole(value.value, kind) if kind and is_kept_form(value.value) else None


def _viewed(value: ast.expr) -> ast.expr | None:
    """What an attribute or a call gives a view of; None of another expression."""
    if isinstance(value, ast.Attribute) and value.attr in VIEWS:
        return value.value
    return _given(value) if isinstance(value, ast.Call) and _called(value) in VIEWED else None


def _one_of(values: Sequence[ast.expr], *, several: bool, scope: Scope) -> Whole | None:
    """The whole of one of several values; which one it is of is told at run time."""
    parts = [part_of(each, several=several, scope=scope) for each in values]
    found = [each for each in parts if each is not None]
    if not found:
        return None
    wholes = {ast.dump(tensor): tensor for each in found for tensor in (each.tensor, *each.others)}
    kinds = {each.kind for each in found}
    kind = next((each for each in ("copy", "split") if each in kinds), "index")
    alike = len(found) == len(parts) and len(wholes) == 1 and len(kinds) == 1
    tensor, *others = wholes.values()
    return Whole(tensor, found[0].kind if alike else kind, others=tuple(others))


def _split(value: ast.expr, scope: Scope) -> Whole | None:
    """What was split into several tensors."""
    if isinstance(value, ast.List | ast.Tuple | ast.Set):
        return _one_of(value.elts, several=False, scope=scope)
    if isinstance(value, ast.ListComp | ast.GeneratorExp | ast.SetComp):
        return part_of(value.elt, several=False, scope=scope)
    if isinstance(value, ast.Name):
        displays = (ast.Call, ast.List, ast.Tuple, ast.ListComp, ast.GeneratorExp)
        bound = [each.value for each in scope.bindings.get(value.id, []) if isinstance(each.value, displays) and not each.several]
        return next((found for found in (_split(each, scope) for each in bound) if found is not None), None)
    if isinstance(value, ast.Call) and _called(value) in _AROUND:
        return next((each for each in (_split(given, scope) for given in value.args) if each is not None), None)
    if isinstance(value, ast.Call) and _called(value) in scope.functions:
        return _of_function(value, scope, ast.Yield)
    source = _given(value) if _called(value) in SPLIT and isinstance(value, ast.Call) else None
    kind = "view" if _called(value) == "unbind" else "copy" if _called(value) in COPIED else "split"
    return Whole(source, kind) if source is not None and is_kept_form(source) else None


def _of_function(call: ast.Call, scope: Scope, giving: type[ast.Return | ast.Yield]) -> Whole | None:
    """The whole where a function of the file gives a part of what it is given."""
    found = [_of_one(each, call, scope, giving) for each in scope.functions.get(_called(call), [])]
    return next((each for each in found if each is not None), None)


def _of_one(
    function: ast.FunctionDef | ast.AsyncFunctionDef, call: ast.Call, scope: Scope, giving: type[ast.Return | ast.Yield]
) -> Whole | None:
    """The whole where one function of the called name gives a part."""
    for found in _parts_of(function, scope, giving):
        own = scope_of(function)
        name = _root(found.tensor)
        given = given_for(name, call, function) if name in own.given and name not in own.bindings else None
        if given is not None and is_kept_form(given):
            return Whole(given, found.kind)
    return None


#: functions that are looked at together, in the order in which they were met: what they give may be known in part only
_met: list[tuple[ast.FunctionDef | ast.AsyncFunctionDef, Scope, type[ast.Return | ast.Yield]]] = []


def _parts_of(function: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope, giving: type[ast.Return | ast.Yield]) -> tuple[Whole, ...]:
    """What a function gives parts of.

    Functions may call themselves and one another: as long as one of them gives more than before, all are looked at again.
    """
    own = scope_of(function)
    own.functions = scope.functions
    if giving in own.parts:
        return tuple[Whole, ...](own.parts[giving])
    own.parts[giving] = ()
    _met.append((function, own, giving))
    if len(_met) > 1:
        return ()
    try:
        _look_again()
    finally:
        _met.clear()
    return tuple[Whole, ...](own.parts[giving])


def _look_again() -> None:
    """Look at what was met, the last first, until nothing new is found."""
    for _ in range(_ROUNDS):
        before = [own.parts[kind] for _, own, kind in _met]
        at = len(_met)
        while at:
            at -= 1
            function, own, kind = _met[at]
            number = len(_met)
            own.parts[kind] = _given_back(function, own, kind)
            if len(_met) > number:  # it calls others, which come first
                at = len(_met)
        if before == [own.parts[kind] for _, own, kind in _met]:
            return


def _given_back(function: ast.FunctionDef | ast.AsyncFunctionDef, own: Scope, giving: type[ast.Return | ast.Yield]) -> tuple[Whole, ...]:
    """What the statements of one function give parts of."""
    values = [each.value for each in ast.walk(function) if isinstance(each, giving) and each.value is not None]
    found = [part_of(each, several=False, scope=own) for each in values]
    return tuple(each for each in found if each is not None)


def _called(value: ast.expr) -> str:
    return getattr(value.func, "attr", getattr(value.func, "id", "")) if isinstance(value, ast.Call) else ""


def _given(call: ast.Call) -> ast.expr | None:
    """The tensor of a call: what its method is of, or what the function is given."""
    func = call.func
    if isinstance(func, ast.Attribute) and getattr(func.value, "id", "") != "torch":
        return func.value
    return call.args[0] if call.args else None


def _kind_of(index: ast.expr, scope: Scope) -> str:
    """What an index gives: a view by numbers and slices, else told at run time.

    Empty for a copy by a list, and for an item of a dictionary.
    """
    places = index.elts if isinstance(index, ast.Tuple) else [index]
    if any(isinstance(each, ast.List | ast.Compare | ast.JoinedStr) or isinstance(getattr(each, "value", 0), str) for each in places):
        return ""
    return "view" if all(isinstance(each, ast.Slice) or _is_number(each, scope) for each in places) else "index"


def _is_number(node: ast.expr, scope: Scope) -> bool:
    """Whether a place of an index is a number: a literal one, or one that counts a loop."""
    if isinstance(node, ast.UnaryOp | ast.BinOp):
        return all(_is_number(each, scope) for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr))
    if isinstance(node, ast.Call):
        return getattr(node.func, "id", "") in ("int", "len")
    if not isinstance(node, ast.Name):
        return isinstance(node, ast.Constant)
    bound = scope.bindings.get(node.id, [])
    return bool(bound) and node.id not in scope.given and all(_counts(node.id, each, scope) for each in bound)


def _counts(name: str, bound: Binding, scope: Scope) -> bool:
    """Whether what binds a name gives a number."""
    if not isinstance(bound.statement, ast.For | ast.AsyncFor):
        return not bound.several and not isinstance(bound.value, ast.Name) and _is_number(bound.value, scope)
    target, over = bound.statement.target, _called(bound.value)
    first = target.elts[0] if isinstance(target, ast.Tuple) else target
    counted = over == "range" if first is target else over == "enumerate"
    return counted and isinstance(first, ast.Name) and first.id == name


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _is_held(name: str, bound: Binding, changed: ast.Name, scope: Scope, around: Sequence[ast.AST]) -> bool:
    """Whether the whole may be read after the part was made, by whatever name."""
    loops = [each for each in around if isinstance(each, ast.For | ast.While)]
    own = [each for each in scope.bindings.get(name, []) if loops or place_of(each.statement) <= place_of(bound.statement)]
    if scope.is_module or not own or not all(not each.several and _is_made(each.value) for each in own):
        return True
    start, rebound = behind(bound.statement), scope.rebound(name, bound.statement)
    before, part = scope.since(bound.statement, own), (place_of(bound.value), _end_of(bound.value))
    for each in scope.reads.get(name, []):
        if each.within or any(place_of(own[0].statement) < place_of(loop) <= each.place <= _end_of(loop) for loop in loops):
            return True
        if before <= each.place < start and not each.passing and not part[0] <= each.place < part[1]:
            return True  # another name may stand for it
        if each.place > start and (rebound is None or each.place < rebound) and not (each.passing and each.place < place_of(changed)):
            return True
    return False


def _end_of(node: ast.stmt | ast.expr) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or node.col_offset


def _is_made(value: ast.expr) -> bool:
    """Whether a value is a tensor that nothing else holds: a result."""
    if isinstance(value, ast.IfExp):
        return _is_made(value.body) and _is_made(value.orelse)
    if isinstance(value, ast.UnaryOp):
        return isinstance(value.op, ast.USub | ast.Invert)
    return isinstance(value, ast.BinOp) or (isinstance(value, ast.Call) and _called(value) not in VIEWED)
