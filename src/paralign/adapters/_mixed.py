"""Float32 beside float64 in one operation, taken together in float64.

A model that was cast to float64 meets constants that its code makes in float32: ``one_hot``, ``astype("float32")``, an array of numpy's.
Most operations compute with both in the wider type; some refuse. What they refuse is asked again here with all floating values in
float64. Only operations that change nothing of what they are given, and draw nothing before they refuse, are asked again. One that takes
what it is given is left alone.
"""

from __future__ import annotations

import functools
import sys
import types
from typing import Any, Callable, Dict, FrozenSet, Iterable, List, NamedTuple, Tuple

from paralign.adapters._operations import held_by_modules, replaced, tensors


class _Home(NamedTuple):
    """Where an operation is held, by which name, the operation, and that wrapped.

    ``inherited``: by a class that has it from its base.
    """

    holder: Any
    name: str
    function: Any
    wrapped: Any
    inherited: bool = False


class MixedOperations:
    """The operations of a framework that are wrapped at the moment.

    Args:
        sources: modules with the framework's functions, and the names of those that may be asked again.
        methods: a tensor's class, and the names of such methods.
        of: the type of tensors.
        narrow: float32 as the framework has it.
        wide: float64.
        cast: a tensor and a type -> the tensor in that type, with its gradient's way back.
        own: how the names of the framework's own modules in C begin: what they hold stays as it is.
    """

    def __init__(
        self,
        sources: Iterable[Tuple[Any, FrozenSet[str]]],
        methods: Tuple[Any, FrozenSet[str]],
        of: type,
        narrow: Any,
        wide: Any,
        cast: Callable[[Any, Any], Any],
        own: str,
    ) -> None:
        self._sources, self._methods, self._of = list(sources), methods, of
        self._narrow, self._wide, self._cast, self._own = narrow, wide, cast, own
        self._homes: List[_Home] = []
        self._loaded = -1
        self._active = False

    def install(self) -> None:
        """Wrap the operations wherever a loaded module holds them."""
        if self._active:
            return
        if self._loaded != len(sys.modules):
            self._homes, self._loaded = self._found(), len(sys.modules)
        for home in self._homes:
            if getattr(home.holder, home.name, None) is home.function:  # what another observer has replaced stays its own
                setattr(home.holder, home.name, home.wrapped)
        self._active = True

    def remove(self) -> None:
        """Put everything back that nobody else has replaced since.

        What somebody has does nothing more.
        """
        for home in reversed(self._homes) if self._active else ():
            if vars(home.holder).get(home.name) is not home.wrapped:
                continue
            if home.inherited:
                delattr(home.holder, home.name)
            else:
                setattr(home.holder, home.name, home.function)
        self._active = False

    def _found(self) -> List[_Home]:
        """Where loaded modules and the tensors' class hold the operations."""
        wrapped: Dict[int, Any] = {}
        for source, names in self._sources:
            for name in sorted(names & set(vars(source))):
                function = vars(source)[name]
                if isinstance(function, (types.BuiltinFunctionType, types.FunctionType)):
                    original = getattr(function, "_paralign_joins", function)
                    wrapped.setdefault(id(original), self._joining(original))
        found = [_Home(module, key, value, wrapped[id(value)]) for module, key, value in held_by_modules(wrapped, self._own)]
        holder, names = self._methods
        for name in sorted(names):
            method = getattr(holder, name, None)
            if method is not None and not hasattr(method, "_paralign_joins"):
                found.append(_Home(holder, name, method, self._joining(method), name not in vars(holder)))
        return found

    def _joining(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def joined(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except Exception:
                given = tensors((args, kwargs), self._is_tensor)
                if not self._active or kwargs.get("out") is not None or {self._narrow, self._wide} - {tensor.dtype for tensor in given}:
                    raise
                wide = iter([self._cast(tensor, self._wide) if tensor.dtype == self._narrow else tensor for tensor in given])
                args = replaced(args, self._is_tensor, wide)
                kwargs = {name: replaced(value, self._is_tensor, wide) for name, value in kwargs.items()}
            return function(*args, **kwargs)

        joined._paralign_joins = function  # type: ignore[attr-defined] # noqa: SLF001 - our own mark
        return joined

    def _is_tensor(self, value: Any) -> bool:
        return isinstance(value, self._of)
