"""States of models that a program puts together itself."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from paralign.port.edits.scope_index import FUNCTIONS, scope_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: what makes a tensor of what is no tensor, or of numbers that it draws
_MAKING = frozenset({
    "DoubleTensor", "FloatTensor", "Tensor", "arange", "as_tensor", "asarray", "eye", "from_numpy", "full", "linspace", "normal", "rand",
    "randint", "randn", "tensor",
})  # fmt: skip

#: functions of several tensors, element by element: noise on a tensor is not made
_ELEMENTWISE = frozenset({"add", "div", "lerp", "mul", "sub", "where"})

#: names of modules, whose functions are no methods of tensors
_MODULES = frozenset({"F", "init", "math", "nn", "np", "numpy", "torch"})

#: functions that a state is followed through
_DEEP = 3

#: every tensor is made, or it is not known which
_ALL, _SOME = ("*",), ("?",)


def is_made(state: ast.expr, around: Sequence[ast.AST]) -> bool:
    """Whether a program gives a state tensors that it makes, and does not take from a state."""
    return bool(_made(state, around, 0))


def made_keys(state: ast.expr, around: Sequence[ast.AST]) -> str:
    """The keys that a program makes, as `_MadeState` is told them."""
    made = _made(state, around, 0)
    return "" if made == _ALL else ", None" if made == _SOME else "".join(f", {each!r}" for each in made)


def _made(state: ast.expr, around: Sequence[ast.AST], depth: int) -> tuple[str, ...]:
    """The keys of a state that the program makes, or all, or some."""
    if isinstance(state, ast.DictComp):
        return _ALL if _makes(state.value) else ()
    if isinstance(state, ast.Dict):
        spread = [_made(value, around, depth + 1) for key, value in zip(state.keys, state.values, strict=True) if key is None]
        return _joined(spread, [(key, value) for key, value in zip(state.keys, state.values, strict=True) if key is not None], "")
    if isinstance(state, ast.Call):
        return _given_made(state, around, depth) if depth < _DEEP else ()
    scopes = [each for each in around if isinstance(each, (*FUNCTIONS, ast.Module))]
    if not isinstance(state, ast.Name) or not scopes:
        return ()
    bound = scope_of(scopes[-1]).bindings.get(state.id, [])
    if not bound:
        return ()
    stored = list(_stored(state.id, scopes[-1]))
    displays = [each.value for each in bound if isinstance(each.value, ast.Dict) and None not in each.value.keys]
    pairs = [*((key, value) for each in displays for key, value in zip(each.keys, each.values, strict=True)), *stored]
    others = [each for each in bound if each.value not in displays]
    inner = [() if each.several or isinstance(each.value, ast.Name) else _made(each.value, around, depth + 1) for each in others]
    return _joined(inner, pairs, state.id)


def _joined(bases: list[tuple[str, ...]], pairs: Sequence[tuple[ast.expr | None, ast.expr]], name: str) -> tuple[str, ...]:
    """What is made of a state that several others and single tensors are put together to."""
    makes = [(key, value) for key, value in pairs if _makes(value)]
    if not makes and not any(bases):
        return ()
    if not pairs and len(bases) == 1:
        return bases[0]
    if all(each == _ALL for each in bases) and not any(_takes(value, name) for _, value in pairs):
        return _ALL
    texts = [key.value for key, _ in pairs if isinstance(key, ast.Constant) and isinstance(key.value, str)]
    if any(bases) or len(texts) < len(pairs) or len(set(texts)) < len(texts):
        return _SOME
    sure = not any(_takes(value, name) for _, value in pairs)
    made = [key.value for key, _ in makes if isinstance(key, ast.Constant) and isinstance(key.value, str)]
    return tuple(made) if sure else _SOME


def _given_made(call: ast.Call, around: Sequence[ast.AST], depth: int) -> tuple[str, ...]:
    """What is made of the state that a function of the file, or of a copy, gives."""
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    if name in ("dict", "OrderedDict", "copy", "deepcopy") and call.args:
        return _made(call.args[0], around, depth + 1)
    module = next((each for each in around if isinstance(each, ast.Module)), None)
    own = [each for each in ast.walk(module) if isinstance(each, FUNCTIONS) and each.name == name] if module is not None else []
    if len(own) != 1 or module is None:
        return ()
    given = [each.value for each in ast.walk(own[0]) if isinstance(each, ast.Return) and each.value is not None]
    found = {_made(each, [module, own[0]], depth + 1) for each in given}
    return found.pop() if len(found) == 1 else _SOME if any(found) else ()


def _stored(name: str, scope: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What a function stores under keys of a name."""
    for each in ast.walk(scope):
        for target in each.targets if isinstance(each, ast.Assign) else []:
            targets = target.elts if isinstance(target, ast.Tuple) else [target]
            given = each.value.elts if isinstance(each, ast.Assign) and isinstance(each.value, ast.Tuple) else []
            for at, inner in enumerate(targets):
                if isinstance(inner, ast.Subscript) and getattr(inner.value, "id", "") == name and isinstance(each, ast.Assign):
                    paired = isinstance(target, ast.Tuple) and len(given) == len(targets)
                    yield inner.slice, given[at] if paired else each.value


def _makes(value: ast.expr) -> bool:
    """Whether a tensor is made, by its outer value: noise on another's is not."""
    if isinstance(value, ast.BinOp):
        return _make([value.left, value.right])
    if not isinstance(value, ast.Call):
        called = [each for each in ast.iter_child_nodes(value) if isinstance(each, ast.expr)]
        return any(map(_makes, called))
    name = getattr(value.func, "attr", getattr(value.func, "id", ""))
    if name in _MAKING:
        return True
    of = value.func.value if isinstance(value.func, ast.Attribute) else None
    if of is not None and getattr(of, "id", getattr(of, "attr", "")) not in _MODULES:
        return _makes(of)
    return _make(value.args) if name in _ELEMENTWISE else any(map(_makes, value.args))


def _make(values: Sequence[ast.expr]) -> bool:
    """Whether values that are put together element by element are made."""
    return any(map(_makes, values)) and all(isinstance(each, ast.Constant) or _makes(each) for each in values)


def _takes(value: ast.expr, name: str) -> bool:
    """Whether a tensor may come from another state than the one of a name."""
    if _makes(value) or isinstance(value, ast.Constant):
        return False
    if isinstance(value, ast.Call):
        of = value.func.value if isinstance(value.func, ast.Attribute) else None
        if of is not None and getattr(of, "id", getattr(of, "attr", "")) not in _MODULES:
            return _takes(of, name)
        return any(_takes(each, name) for each in value.args if not isinstance(each, ast.Name))
    root = value
    while isinstance(root, ast.Subscript | ast.Attribute):
        root = root.value
    return not name or getattr(root, "id", "") != name
