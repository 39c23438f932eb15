"""States of models that a program puts together itself."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from paralign.port.edits.scope_index import FUNCTIONS, scope_of
from paralign.port.edits.tensor_origins import Origin, Origins, runs_over

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: functions and names that a state is followed through
_DEEP = 4

#: every tensor is made, or it is not known which
_ALL, _SOME = ("*",), ("?",)

#: a key, and the origin of the tensor under it
_Pair = tuple["ast.expr | None", Origin]


def is_made(state: ast.expr, around: Sequence[ast.AST]) -> bool:
    """Whether a program gives a state tensors that it makes, and does not take from a state."""
    return bool(_made(state, around, 0))


def made_keys(state: ast.expr, around: Sequence[ast.AST]) -> str:
    """The keys that a program makes, as `_MadeState` is told them."""
    made = _made(state, around, 0)
    return "" if made == _ALL else ", None" if made == _SOME else "".join(f", {each!r}" for each in made)


def _made(state: ast.expr, around: Sequence[ast.AST], depth: int) -> tuple[str, ...]:
    """The keys of a state that the program makes, or all, or some."""
    if depth > _DEEP:
        return ()
    if isinstance(state, ast.DictComp):
        return _joined([], [(None, Origins(around).of(state.value, runs_over(state)))])
    if isinstance(state, ast.Dict | ast.Call):
        return _joined(*_put_together(state, around, depth))
    if isinstance(state, ast.BinOp):
        return _joined([_made(each, around, depth + 1) for each in (state.left, state.right)], [])
    scopes = [each for each in around if isinstance(each, (*FUNCTIONS, ast.Module))]
    return _of_scopes(state.id, scopes, around, depth) if isinstance(state, ast.Name) and scopes else ()


def _of_scopes(name: str, scopes: Sequence[ast.AST], around: Sequence[ast.AST], depth: int) -> tuple[str, ...]:
    """What is made of a state that a function has, is given, or finds in its module."""
    scope = scope_of(scopes[-1])
    if scope.bindings.get(name):
        return _of_name(name, scopes[-1], around, depth)
    if name in scope.given:
        found = {_made(each, [scopes[0], *inner], depth + 1) for inner, each in Origins(around).given(name, scopes[-1])}
        return found.pop() if len(found) == 1 else _SOME if any(found) else ()
    return _made(ast.Name(name), scopes[:1], depth + 1) if len(scopes) > 1 and name in scope_of(scopes[0]).bindings else ()


def _of_name(name: str, scope: ast.AST, around: Sequence[ast.AST], depth: int) -> tuple[str, ...]:
    """What is made of a state that a function binds to a name, stores under it, and adds."""
    bound = scope_of(scope).bindings.get(name, [])
    bases: list[tuple[str, ...]] = []
    pairs = list(_stored(name, scope, Origins(around)))
    given = [each.value for each in bound if not each.several and not isinstance(each.value, ast.Name)]
    for each in [*given, *_updates(name, scope)]:
        inner = _put_together(each, around, depth + 1) if isinstance(each, ast.Dict | ast.Call) else ([_made(each, around, depth + 1)], [])
        bases, pairs = bases + inner[0], pairs + inner[1]
    named = [each.value for each in bound if isinstance(each.value, ast.Name) and not each.several and each.value.id != name]
    bases += [_made(each, around, depth + 1) for each in named]
    return _joined(bases, pairs)


def _put_together(state: ast.Dict | ast.Call, around: Sequence[ast.AST], depth: int) -> tuple[list[tuple[str, ...]], list[_Pair]]:
    """The states and the tensors that a display or a call puts together."""
    origins = Origins(around)
    if isinstance(state, ast.Dict):
        items = list(zip(state.keys, state.values, strict=True))
        bases = [_made(value, around, depth + 1) for key, value in items if key is None]
        return bases, [(key, origins.of(value)) for key, value in items if key is not None]
    name = getattr(state.func, "attr", getattr(state.func, "id", ""))
    if name in ("dict", "OrderedDict", "defaultdict", "copy", "deepcopy"):
        pairs: list[_Pair] = [(ast.Constant(each.arg), origins.of(each.value)) for each in state.keywords if each.arg]
        bases = [_made(each.value, around, depth + 1) for each in state.keywords if not each.arg]
        for each in state.args if name != "defaultdict" else state.args[1:]:
            if isinstance(each, ast.List | ast.Tuple):
                shown = [inner.elts for inner in each.elts if isinstance(inner, ast.Tuple) and len(inner.elts) > 1]
                pairs += [(key, origins.of(value)) for key, value, *_ in shown]
            elif isinstance(each, ast.ListComp | ast.GeneratorExp):
                value = each.elt.elts[-1] if isinstance(each.elt, ast.Tuple) and each.elt.elts else each.elt
                pairs.append((None, origins.of(value, runs_over(each))))
            elif isinstance(each, ast.Call) and getattr(each.func, "id", "") == "zip":
                pairs.append((None, origins.of(each.args[-1]) if each.args else Origin(0)))
            else:
                bases.append(_made(each, around, depth + 1))
        return bases, pairs
    module = next((each for each in around if isinstance(each, ast.Module)), None)
    own = [each for each in ast.walk(module) if isinstance(each, FUNCTIONS) and each.name == name] if module is not None else []
    if len(own) != 1 or module is None:
        return [()], []
    given = [each.value for each in ast.walk(own[0]) if isinstance(each, ast.Return) and each.value is not None]
    found = {_made(each, [module, own[0]], depth + 1) for each in given}
    return [found.pop() if len(found) == 1 else _SOME if any(found) else ()], []


def _joined(bases: list[tuple[str, ...]], pairs: Sequence[_Pair]) -> tuple[str, ...]:
    """What is made of a state that several others and single tensors are put together to."""
    of_keys = Origin(0)
    for _, each in pairs:
        of_keys |= each
    if not of_keys & (Origin.MADE | Origin.UNKNOWN) and not any(bases):
        return ()
    if not pairs and len(bases) == 1:
        return bases[0]
    if all(each == _ALL for each in bases) and not of_keys & ~Origin.MADE:
        return _ALL
    texts = [key.value for key, _ in pairs if isinstance(key, ast.Constant) and isinstance(key.value, str)]
    unsure = any((each & Origin.MADE and each != Origin.MADE) or each & Origin.UNKNOWN for _, each in pairs)
    if any(bases) or unsure or len(texts) < len(pairs) or len(set(texts)) < len(texts):
        return _SOME
    return tuple(key.value for key, each in pairs if each & Origin.MADE and isinstance(key, ast.Constant) and isinstance(key.value, str))


def _stored(name: str, scope: ast.AST, origins: Origins) -> Iterator[_Pair]:
    """What a function stores under keys of a name."""
    for each in ast.walk(scope):
        if isinstance(each, ast.AugAssign) and _is_item(each.target, name) and isinstance(each.target, ast.Subscript):
            origin = origins.of(each.value)
            if origin:  # a number changes nothing
                yield each.target.slice, origin
        for target in each.targets if isinstance(each, ast.Assign) else []:
            targets = target.elts if isinstance(target, ast.Tuple) else [target]
            given = each.value.elts if isinstance(each, ast.Assign) and isinstance(each.value, ast.Tuple) else []
            for at, inner in enumerate(targets):
                if isinstance(inner, ast.Subscript) and _is_item(inner, name) and isinstance(each, ast.Assign):
                    paired = isinstance(target, ast.Tuple) and len(given) == len(targets)
                    yield inner.slice, origins.of(given[at] if paired else each.value)
        func = each.func if isinstance(each, ast.Call) else None
        if isinstance(each, ast.Call) and isinstance(func, ast.Attribute) and func.attr == "setdefault" and _is_of(func.value, name):
            yield from ((key, origins.of(value)) for key, value in zip(each.args, each.args[1:2], strict=False))


def _updates(name: str, scope: ast.AST) -> Iterator[ast.expr]:
    """The states that a function adds to a name."""
    for each in ast.walk(scope):
        if isinstance(each, ast.AugAssign) and getattr(each.target, "id", "") == name and isinstance(each.op, ast.BitOr):
            yield each.value
        func = each.func if isinstance(each, ast.Call) else None
        if (
            isinstance(each, ast.Call)
            and isinstance(func, ast.Attribute)
            and func.attr == "update"
            and getattr(func.value, "id", "") == name
        ):
            yield from each.args[:1]
            told = [keyword for keyword in each.keywords if keyword.arg]
            if told:
                yield ast.Dict(keys=[ast.Constant(keyword.arg) for keyword in told], values=[keyword.value for keyword in told])


def _is_item(target: ast.expr, name: str) -> bool:
    return isinstance(target, ast.Subscript) and _is_of(target.value, name)


def _is_of(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
