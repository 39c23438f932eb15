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

#: functions that a state is followed through
_DEEP = 3


def is_made(state: ast.expr, around: Sequence[ast.AST], depth: int = 0) -> bool:
    """Whether a program gives a state tensors that it makes, and does not take from a state."""
    if isinstance(state, ast.Dict | ast.DictComp):
        return any(map(_makes, state.values if isinstance(state, ast.Dict) else [state.value]))
    if isinstance(state, ast.Call):
        return depth < _DEEP and _is_given_made(state, around, depth)
    scopes = [each for each in around if isinstance(each, (*FUNCTIONS, ast.Module))]
    if not isinstance(state, ast.Name) or not scopes:
        return False
    bound = scope_of(scopes[-1]).bindings.get(state.id, [])
    if any(is_made(each.value, around, depth + 1) for each in bound if not each.several and not isinstance(each.value, ast.Name)):
        return True
    return bool(bound) and any(map(_makes, _stored(state.id, scopes[-1])))


def _is_given_made(call: ast.Call, around: Sequence[ast.AST], depth: int) -> bool:
    """Whether a function of the file, or of a copy, gives such a state."""
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    if name in ("dict", "OrderedDict", "copy", "deepcopy") and call.args:
        return is_made(call.args[0], around, depth + 1)
    module = next((each for each in around if isinstance(each, ast.Module)), None)
    own = [each for each in ast.walk(module) if isinstance(each, FUNCTIONS) and each.name == name] if module is not None else []
    if len(own) != 1 or module is None:
        return False
    given = [each.value for each in ast.walk(own[0]) if isinstance(each, ast.Return) and each.value is not None]
    return any(is_made(each, [module, own[0]], depth + 1) for each in given)


def _stored(name: str, scope: ast.AST) -> Iterator[ast.expr]:
    """What a function stores under keys of a name."""
    for each in ast.walk(scope):
        for target in each.targets if isinstance(each, ast.Assign) else []:
            if isinstance(target, ast.Subscript) and getattr(target.value, "id", "") == name and isinstance(each, ast.Assign):
                yield each.value


def _makes(value: ast.expr) -> bool:
    called = [each.func for each in ast.walk(value) if isinstance(each, ast.Call)]
    return any(getattr(each, "attr", getattr(each, "id", "")) in _MAKING for each in called)
