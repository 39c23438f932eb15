"""Float32 beside float64 in one operation of Paddle, taken together in float64.

A model that was cast to float64 meets constants that its code makes in float32: ``one_hot``, ``astype("float32")``, an array of numpy's.
PyTorch computes with both in the wider type; many of Paddle's operations refuse. What they refuse is asked again here with all floating
values in float64. An operation that takes what it is given is left alone.
"""

from __future__ import annotations

import functools
import sys
import types
from typing import Any, Callable, Dict, List, NamedTuple

import paddle

from paralign.adapters._operations import replaced, tensors

NARROW, WIDE = paddle.float32, paddle.float64


class _Home(NamedTuple):
    """A module, the name by which it holds an operation, the operation, and that wrapped."""

    module: Any
    name: str
    function: Any
    wrapped: Any


class Mixing:
    """The functions that are wrapped at the moment."""

    def __init__(self) -> None:
        self._homes: List[_Home] = []
        self._active = False

    def install(self) -> None:
        """Wrap every operation wherever a loaded module holds it."""
        if self._active:
            return
        self._homes = self._homes or self._found()
        for home in self._homes:
            if getattr(home.module, home.name, None) is home.function:  # what another observer has replaced stays its own
                setattr(home.module, home.name, home.wrapped)
        self._active = True

    def remove(self) -> None:
        """Put everything back that nobody else has replaced since.

        What somebody has does nothing more.
        """
        for home in self._homes if self._active else ():
            if getattr(home.module, home.name, None) is home.wrapped:
                setattr(home.module, home.name, home.function)
        self._active = False

    def _found(self) -> List[_Home]:
        """Where loaded modules hold operations."""
        operations = paddle._C_ops  # noqa: SLF001 - Paddle's only name for its operations
        wrapped: Dict[int, Any] = {}
        for name, function in vars(operations).items():
            if isinstance(function, types.BuiltinFunctionType) and not name.startswith("__") and not name.endswith("_"):
                wrapped.setdefault(id(function), self._joining(function))
        found = []
        for name, module in list(sys.modules.items()):
            space = getattr(module, "__dict__", None)
            if not isinstance(space, dict) or name.startswith("paddle.base.libpaddle"):
                continue
            for key, value in list(space.items()):
                if type(value) is types.BuiltinFunctionType and id(value) in wrapped:
                    found.append(_Home(module, key, value, wrapped[id(value)]))
        return found

    def _joining(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def joined(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except Exception:
                given = tensors((args, kwargs), _is_tensor)
                if not self._active or {NARROW, WIDE} - {tensor.dtype for tensor in given}:
                    raise
                wide = iter([_widened(tensor) for tensor in given])
                args = replaced(args, _is_tensor, wide)
                kwargs = {name: replaced(value, _is_tensor, wide) for name, value in kwargs.items()}
            return function(*args, **kwargs)

        joined._paralign_joins = function  # type: ignore[attr-defined] # noqa: SLF001 - our own mark
        return joined


def _is_tensor(value: Any) -> bool:
    return isinstance(value, paddle.Tensor)


def _widened(tensor: Any) -> Any:
    """A float32 tensor in float64, with its gradient's way back; any other as it is."""
    return tensor.cast(WIDE) if tensor.dtype == NARROW else tensor
