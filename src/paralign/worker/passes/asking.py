"""What a model's code asks of its pass and is answered otherwise when observed.

Are gradients kept? Who watches?
"""

from __future__ import annotations

import dis
import inspect
from contextlib import suppress
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Iterator, List, Optional, Set, Tuple

from paralign.adapters.base import Curving
from paralign.worker.protocol.pass_tasks import Question

if TYPE_CHECKING:
    from paralign.worker.sides.session import Session

#: names that are asked for whether gradients are kept
OF_GRADIENTS = {"is_grad_enabled", "is_inference_mode_enabled", "requires_grad", "stop_gradient", "grad_fn"}

#: names that are asked for who watches
OF_WATCHERS = {"gettrace", "getprofile", "_forward_hooks", "_forward_pre_hooks", "_forward_post_hooks", "_get_current_dispatch_mode"}

#: functions that are looked through at most: those of large models, many times over
MOST = 5000

_READS = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF")


def asked(session: Session) -> List[Question]:
    """Every question in the code that the model's forward passes can reach.

    The framework's own code is left out.
    """
    own = session.adapter.name
    names = OF_WATCHERS | (OF_GRADIENTS if isinstance(session.adapter, Curving) and not session.keeps_gradients else set())
    seen: Set[CodeType] = set()
    found: Set[Question] = set()
    waiting: List[Tuple[FunctionType, Optional[type]]] = []
    for cls in {type(module) for _, module in session.adapter.modules(session.model)}:
        waiting += [(function, cls) for function in _functions(cls, "forward", own)]
    while waiting and len(seen) < MOST:
        function, kind = waiting.pop()
        if function.__code__ in seen:
            continue
        seen.add(function.__code__)
        for name, line in _read(function.__code__):
            if name in names:
                found.add(Question(name, function.__code__.co_filename, line))
            waiting += [(each, kind) for each in _functions(kind, name, own)]
            known = function.__globals__.get(name)
            waiting += [(each, None) for each in [_plain(known, own)] if each is not None]
    return sorted(found)


def _functions(kind: Optional[type], name: str, own: str) -> List[FunctionType]:
    """The methods of a name in a class and in those that it derives from."""
    if kind is None:
        return []
    found = [_plain(vars(cls).get(name), own) for cls in kind.__mro__]
    return [each for each in found if each is not None]


def _plain(value: Any, own: str) -> Optional[FunctionType]:
    """The function behind decorators.

    None for anything else, which is not touched, and for one of the framework.
    """
    kind = type(value)  # isinstance() would ask the object for its class
    if issubclass(kind, property):
        value = value.fget
    elif issubclass(kind, (staticmethod, classmethod)):
        value = value.__func__
    if type(value) is not FunctionType:
        return None
    with suppress(ValueError):  # functions that wrap each other
        value = inspect.unwrap(value)
    if not isinstance(value, FunctionType) or str(value.__module__).partition(".")[0] == own:
        return None
    return value


def _read(code: CodeType) -> Iterator[Tuple[str, int]]:
    """The names that code reads, that of functions inside it too, with their lines."""
    line = code.co_firstlineno
    for instruction in dis.get_instructions(code):
        began = getattr(instruction, "line_number", None) or instruction.starts_line
        line = began if began and began is not True else line
        if instruction.opname in _READS and isinstance(instruction.argval, str):
            yield instruction.argval, line
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _read(inner)
