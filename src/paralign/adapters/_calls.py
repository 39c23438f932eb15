"""Observing module calls, the same for every framework.

Counts, nesting and the user's source line.

A framework's adapter describes its modules as :class:`Target` and reports to :class:`Calls` when a call begins, ends or
fails; :func:`attached` does so through the forward hooks that PyTorch and Paddle have in common.
"""

from __future__ import annotations

import inspect
import os
import sys
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, FrozenSet, Iterator, List, Optional, Sequence, Tuple, Union

from paralign.adapters.base import Call

if TYPE_CHECKING:
    from types import FrameType

    from paralign.adapters.base import Sink

_STDLIB = str(Path(os.__file__).parent)
_PARALIGN = str(Path(__file__).parent.parent)

#: the file of paralign's that stands between the user's code and the framework's (:mod:`paralign.adapters._mixed`)
_BETWEEN = str(Path(__file__).parent / "_mixed.py")


def _inside(path: str, folder: str) -> bool:
    return path.startswith(folder + os.sep)


def in_stdlib(path: str) -> bool:
    """Whether a source file belongs to Python itself.

    What is installed below its folder does not.
    """
    return _inside(path, _STDLIB) and "-packages" + os.sep not in path[len(_STDLIB) :]


class SourceLine:
    """Finds ``file:line`` of the user's code that made the call in progress.

    Args:
        folders: folders whose code is not the user's (the framework).
        models: folders inside ``folders`` that hold models, which count as the user's code all the same.
    """

    def __init__(self, folders: Sequence[str], models: Sequence[str] = ()) -> None:
        self._folders, self._models = [*folders, _PARALIGN], list(models)
        self._known: Dict[str, bool] = {}

    def __call__(self) -> Optional[str]:
        """The innermost frame that is the user's, or None where there is none."""
        frame: Optional[FrameType] = sys._getframe(1)  # noqa: SLF001 - the documented way to walk the stack without its source
        while frame is not None:
            path = frame.f_code.co_filename
            if self.is_users(path):
                return f"{path}:{frame.f_lineno}"
            frame = frame.f_back
        return None

    def is_users(self, path: str) -> bool:
        """Whether code of this file is the user's."""
        known = self._known.get(path)
        if known is None:
            known = self._known[path] = self._is_users(path)
        return known

    def stack(self) -> Tuple[str, ...]:
        """Every frame that is the user's, innermost first, up to where paralign called it."""
        frame: Optional[FrameType] = sys._getframe(1)  # noqa: SLF001 - as above
        while frame is not None and frame.f_code.co_filename.startswith(_PARALIGN):
            frame = frame.f_back
        found = []
        while frame is not None:
            path = frame.f_code.co_filename
            if self.is_users(path):
                found.append(f"{path}:{frame.f_lineno}")
            elif path.startswith(_PARALIGN) and path != _BETWEEN:
                break
            frame = frame.f_back
        return tuple(found)

    def _is_users(self, path: str) -> bool:
        if path.startswith("<"):  # frozen modules, generated code: there is no file to point at
            return False
        if any(_inside(path, folder) for folder in self._models):
            return True
        if in_stdlib(path):
            return False
        return not any(_inside(path, folder) for folder in self._folders)


@dataclass(frozen=True)
class Target:
    """What is known of a module before it is called; ``watched`` is what ``select`` said."""

    name: str
    op: str
    kind: str
    leaf: bool
    watched: bool


class Paths:
    """The paths of the modules that run in this thread, kept by :func:`attached`'s hooks."""

    def __init__(self) -> None:
        self._open: List[str] = [""]
        self._thread = threading.get_ident()

    def begin(self, target: Target) -> None:
        """A module starts."""
        if threading.get_ident() == self._thread:
            self._open.append(target.name)

    def end(self, target: Target, *_: Any) -> None:
        """A module ends; those inside it that failed unnoticed end with it."""
        if threading.get_ident() != self._thread:
            return
        for depth in range(len(self._open) - 1, 0, -1):
            if self._open[depth] == target.name:
                del self._open[depth:]
                return

    @property
    def innermost(self) -> str:
        """The path of the innermost module that is running."""
        return self._open[-1]


class Calls:
    """The calls of one observation.

    Calls that the sink itself makes are not reported: a sink may run modules without seeing itself. A call that raises is
    counted but not reported.
    """

    def __init__(self, sink: Sink, source: SourceLine) -> None:
        self._sink, self._source = sink, source
        self._counts: Dict[str, int] = {}
        self._open: List[Tuple[Target, int, Optional[BaseException]]] = []
        self._in_sink = False

    def begin(self, target: Target) -> None:
        """A module is about to run."""
        if self._in_sink:
            return
        number = self._counts.get(target.name, 0)
        self._counts[target.name] = number + 1
        self._open.append((target, number, sys.exc_info()[1]))

    def end(self, target: Target, args: Tuple[Any, ...], kwargs: Dict[str, Any], outputs: Any) -> None:
        """Note that a module has run, or failed.

        Hooks that are always called see a failure as an exception being handled.
        """
        if self._in_sink:
            return
        closed = self.drop(target)
        if closed is None or sys.exc_info()[1] is not closed[1] or not target.watched:
            return
        call = Call(
            name=target.name,
            number=closed[0],
            op=target.op,
            kind=target.kind,
            source=self._source(),
            inputs=(*args, kwargs) if kwargs else args,
            outputs=outputs,
            depth=len(self._open),
            leaf=target.leaf,
            attrs={"kwargs": sorted(kwargs)} if kwargs else {},
        )
        self._in_sink = True
        try:
            self._sink(call)
        finally:
            self._in_sink = False

    def drop(self, target: Target) -> Optional[Tuple[int, Optional[BaseException]]]:
        """Close the innermost open call of a module; gives its number and pending exception.

        The latter is what failed inside it unnoticed.
        """
        for depth in range(len(self._open) - 1, -1, -1):
            found, number, pending = self._open[depth]
            if found is target and not self._in_sink:
                del self._open[depth:]
                return number, pending
        return None


def accepted(function: Callable[..., Any], *options: str) -> Dict[str, bool]:
    """Those of the options, all True, that this version of the framework's function takes."""
    known = _parameters(getattr(function, "__func__", function))
    return {option: True for option in options if option in known}


@lru_cache(maxsize=64)
def _parameters(function: Callable[..., Any]) -> FrozenSet[str]:
    """Names of the parameters; asked for each layer, and slow to find."""
    return frozenset(inspect.signature(function).parameters)


@contextmanager
def attached(layers: Sequence[Tuple[Any, Target]], calls: "Union[Calls, Paths]", register: str) -> Iterator[None]:
    """Forward hooks on all layers, removed on leaving.

    ``register`` is the name of the method that registers a hook to be called after the forward. Every layer is hooked, watched
    or not, so that the nesting of calls is known.
    """
    with ExitStack() as stack:
        for layer, target in layers:
            before, after = _hooks(calls, target)
            stack.callback(layer.register_forward_pre_hook(before).remove)
            method = getattr(layer, register)
            stack.callback(method(after, **accepted(method, "with_kwargs", "always_call")).remove)
        yield


def _hooks(calls: "Union[Calls, Paths]", target: Target) -> Tuple[Callable[..., None], Callable[..., None]]:
    def before(_layer: Any, _args: Any) -> None:
        calls.begin(target)

    def after(_layer: Any, args: Tuple[Any, ...], *rest: Any) -> None:
        kwargs = rest[0] if len(rest) > 1 else {}  # versions without ``with_kwargs`` hide keyword arguments from hooks
        calls.end(target, args, kwargs, rest[-1])

    return before, after
