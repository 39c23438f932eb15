"""Watching single operations: what the frameworks have in common.

A framework's adapter calls a :class:`Watch` around every operation; the watch finds the user's lines and the module, counts,
and asks the sink.
"""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

from paralign.adapters._kinds import common
from paralign.adapters.base import Operation
from paralign.dtypes import unboxed

if TYPE_CHECKING:
    from types import FrameType

    from paralign.adapters._calls import Paths, SourceLine
    from paralign.adapters.base import OperationSink

#: what a thread is doing: ``in_sink`` while a sink runs, whose own operations no observation sees
_THREAD = threading.local()

#: live checks in this thread, one inside the other, see :func:`nested`
_LEVEL = threading.local()

#: elements of a list among an operation's arguments that are kept
_MOST = 16


@contextmanager
def unwatched() -> Iterator[None]:
    """No observation sees or counts the operations of this thread inside."""
    before = getattr(_THREAD, "in_sink", False)
    _THREAD.in_sink = True
    try:
        yield
    finally:
        _THREAD.in_sink = before


@contextmanager
def nested() -> Iterator[None]:
    """Have outer observations of this thread not see what is computed inside.

    It is of a check of its own.
    """
    before = getattr(_LEVEL, "depth", 0)
    _LEVEL.depth = before + 1
    try:
        yield
    finally:
        _LEVEL.depth = before


class Watch:
    """One observation of one thread."""

    def __init__(self, sink: "OperationSink", source: "SourceLine", paths: Paths) -> None:
        self._sink, self._source, self._paths = sink, source, paths
        self._thread = threading.get_ident()
        self._level = getattr(_LEVEL, "depth", 0)
        self._count = 0
        self._depth = 0

    @property
    def idle(self) -> bool:
        """Whether an operation is none of this observation's.

        It is of another thread, of a sink, inside another operation, or of an inner check.
        """
        if self._depth > 0 or threading.get_ident() != self._thread or getattr(_THREAD, "in_sink", False):
            return True
        return getattr(_LEVEL, "depth", 0) != self._level

    @contextmanager
    def inside(self) -> Iterator[None]:
        """An operation runs: what it does inside is part of it."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def before(self, inputs: List[Any]) -> None:
        """Show the sink the inputs of an operation that is about to run."""
        with unwatched():
            self._sink.before(inputs)

    def known(self, op: str, inputs: List[Any], settings: Callable[[], Dict[str, Any]]) -> Any:
        """The tensor that the sink knows an operation to make; None where it has to run."""
        ask = getattr(self._sink, "known", None)
        if ask is None:
            return None
        with unwatched():
            return ask(self._count, op, common(op), inputs, settings)

    def after(
        self,
        op: str,
        inputs: List[Any],
        outputs: List[Any],
        attrs: Dict[str, Any],
        *,
        random: bool,
        kind: str = "",
        place: Optional[Tuple[str, Tuple[str, ...]]] = None,
    ) -> Optional[List[Any]]:
        """Show the sink an operation that has run; gives what it wants in place of outputs.

        ``place`` is the module and the user's lines where they are known otherwise than from what is running.
        """
        module, stack = place or (self._paths.innermost, self._source.stack())
        operation = Operation(self._count, op, kind or common(op), attrs, inputs, outputs, stack, module, random)
        self._count += 1
        with unwatched():
            return self._sink.after(operation)


def held_by_modules(functions: Iterable[int], own: str) -> Iterator[Tuple[Any, str, Any]]:
    """Where loaded modules hold some functions: module, name, function.

    Args:
        functions: their ``id``.
        own: how the names of the framework's own modules in C begin; what they hold stays as it is.
    """
    sought = frozenset(functions)
    for name, module in list(sys.modules.items()):
        space = getattr(module, "__dict__", None)
        if not isinstance(space, dict) or name.startswith(own):
            continue
        if sought.isdisjoint(map(id, list(space.values()))):  # of most modules, of which a framework has thousands
            continue
        for key, value in list(space.items()):
            if id(value) in sought:
                yield module, key, value


def tensors(value: Any, known: Callable[[Any], bool]) -> List[Any]:
    """Every tensor in the arguments of an operation, in order."""
    found: List[Any] = []
    todo = [value]
    while todo:
        item = todo.pop()
        if known(item):
            found.append(item)
        elif isinstance(item, (list, tuple)):
            todo.extend(reversed(item))
        elif isinstance(item, dict):
            todo.extend(reversed(list(item.values())))
    return found


def replaced(value: Any, known: Callable[[Any], bool], new: Iterator[Any]) -> Any:
    """The same structure with the tensors replaced one by one."""
    if known(value):
        return next(new)
    if isinstance(value, (list, tuple)):
        inner = [replaced(item, known, new) for item in value]
        return type(value)(*inner) if hasattr(value, "_fields") else type(value)(inner)
    return value


def plain_attribute(value: Any) -> Any:
    """An argument that is no tensor, as JSON can hold it; text for what it cannot."""
    value = unboxed(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, complex):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [plain_attribute(item) for item in value[:_MOST]]
    return str(value)[:80]


#: what a layer's settings are: tensors and modules that are set as attributes are none
_SETTINGS = (bool, int, float, str, tuple, list)


@contextmanager
def constructed(root: Any, source: "SourceLine") -> Iterator[Dict[int, Tuple[str, ...]]]:
    """Note where every module that derives from a class is constructed.

    The class's ``__init__`` is wrapped for the time.

    The line that constructs a module is outside of the module's own ``__init__`` methods. A line from outside that changes a
    setting of a module afterwards, its epsilon say, comes first: it had the last word.
    """
    found: Dict[int, Tuple[str, ...]] = {}
    original, setter = root.__init__, root.__setattr__
    thread = threading.get_ident()

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it stands in for one
        if threading.get_ident() == thread:
            found[id(self)] = source.stack()[_own_frames(self, source) :]
        original(self, *args, **kwargs)

    def __setattr__(self: Any, name: str, value: Any) -> None:  # noqa: N807 - it stands in for one
        before = vars(self).get(name)
        setter(self, name, value)
        if before is None or not isinstance(value, _SETTINGS) or not isinstance(before, _SETTINGS) or value == before:
            return
        if id(self) in found and threading.get_ident() == thread and _is_outside(self, source):
            found[id(self)] = source.stack()[:1] + found[id(self)]

    root.__init__, root.__setattr__ = __init__, __setattr__
    try:
        yield found
    finally:
        root.__init__, root.__setattr__ = original, setter


def _is_outside(module: Any, source: "SourceLine") -> bool:
    """Whether a module's attribute is set by the user's code, outside of its methods."""
    frame = sys._getframe(2)  # noqa: SLF001 - as in _calls
    first = next(iter(frame.f_code.co_varnames), "")
    return source.is_users(frame.f_code.co_filename) and frame.f_locals.get(first) is not module


def _own_frames(module: Any, source: "SourceLine") -> int:
    """How many of the innermost user frames are the module's own ``__init__`` methods.

    The framework may have decorated them.
    """
    count = 0
    frame: Optional[FrameType] = sys._getframe(2)  # noqa: SLF001 - as in _calls
    while frame is not None:
        if source.is_users(frame.f_code.co_filename):
            if frame.f_code.co_name != "__init__" or frame.f_locals.get(next(iter(frame.f_code.co_varnames), "")) is not module:
                break
            count += 1
        frame = frame.f_back
    return count
