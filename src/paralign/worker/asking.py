"""What a model's code asks of the pass that it is in, and is answered otherwise under observation: are gradients kept, who watches?"""

from __future__ import annotations

import dis
import inspect
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Iterator, List, Optional, Set, Tuple

from paralign.worker.protocol.pass_tasks import Question

if TYPE_CHECKING:
    from paralign.worker.session import Session

#: names that are asked for whether gradients are kept
OF_GRADIENTS = {"is_grad_enabled", "is_inference_mode_enabled", "requires_grad", "stop_gradient", "grad_fn"}

#: names that are asked for who watches
OF_WATCHERS = {"gettrace", "getprofile", "_forward_hooks", "_forward_pre_hooks", "_forward_post_hooks", "_get_current_dispatch_mode"}

#: functions that are looked through at most: those of large models, many times over
MOST = 5000

_READS = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF")


def asked(session: Session) -> List[Question]:
    """Every question in the code that the model's forward passes can reach; the framework's own code is left out."""
    own = session.adapter.name
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
            if name in OF_WATCHERS or (name in OF_GRADIENTS and not session.keeps_gradients):
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
    """The function behind decorators; None for anything else, and for one of the framework."""
    value = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
    if not callable(value) or isinstance(value, type):
        return None
    value = inspect.unwrap(value)
    if not isinstance(value, FunctionType) or value.__module__.partition(".")[0] == own:
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
