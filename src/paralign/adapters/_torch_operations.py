"""Single operations of PyTorch, by a dispatch mode.

Everything that reaches ``aten``, composite operations taken apart.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Tuple, Type

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from paralign.adapters._operations import Watch, plain_attribute, replaced, tensors

if TYPE_CHECKING:
    from paralign.adapters._calls import Paths, SourceLine
    from paralign.adapters.base import OperationSink

#: settings that act on gradients alone: their defaults are recorded too, as no forward pass tells them
_SAID_ALWAYS = frozenset({"padding_idx"})


@contextmanager
def observed(sink: "OperationSink", source: "SourceLine", paths: "Paths") -> Iterator[None]:
    """Show the sink every operation of this thread."""
    with _mode()(Watch(sink, source, paths)):
        yield


#: who notes which parameters are frozen: thread, what was found, and what finds the user's lines
_Noting = Tuple[int, Dict[int, Tuple[str, ...]], "SourceLine"]
_NOTING: List[_Noting] = []
_PATCHING = threading.Lock()


@contextmanager
def freezing(found: Dict[int, Tuple[str, ...]], source: "SourceLine") -> Iterator[None]:
    """Note the lines of this thread that switch parameters' gradients off, by ``id``."""
    own: _Noting = (threading.get_ident(), found, source)
    with _PATCHING:
        _NOTING.append(own)
        if len(_NOTING) == 1:
            _note_freezing()
    try:
        yield
    finally:
        with _PATCHING:
            _NOTING[:] = [other for other in _NOTING if other is not own]
            if not _NOTING:  # both are inherited from a class that is written in C
                del torch.Tensor.requires_grad_
                del torch.Tensor.requires_grad


def _note_freezing() -> None:
    method, flag = torch.Tensor.requires_grad_, torch.Tensor.requires_grad

    def note(tensor: Any, value: bool) -> None:
        for thread, found, source in _NOTING.copy():
            if not value and thread == threading.get_ident() and isinstance(tensor, torch.nn.Parameter):
                lines = source.stack()
                if lines or id(tensor) not in found:  # under torch.set_default_device PyTorch calls once more, from lines of its own
                    found[id(tensor)] = lines

    def requires_grad_(self: Any, requires_grad: bool = True) -> Any:
        note(self, requires_grad)
        return method(self, requires_grad)

    def setter(tensor: Any, value: bool) -> None:
        note(tensor, value)
        flag.__set__(tensor, value)

    torch.Tensor.requires_grad_ = requires_grad_
    torch.Tensor.requires_grad = property(flag.__get__, setter)


#: what ``torch.compile`` imports when it is first called
_COMPILER = "torch._dynamo"


class _Mode(TorchDispatchMode):  # type: ignore[misc] # PyTorch's types are not looked into
    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    def __torch_dispatch__(self, func: Any, types: Any, args: Tuple[Any, ...] = (), kwargs: Optional[Dict[str, Any]] = None) -> Any:
        kwargs = kwargs or {}
        if self._watch.idle:
            return func(*args, **kwargs)
        inputs = tensors((args, _read(func, kwargs)), _is_tensor)
        self._watch.before(inputs)
        result = self._known(func, inputs, args, kwargs)
        if result is None:
            with self._watch.inside():
                result = func(*args, **kwargs)
        outputs = tensors(result, _is_tensor)
        if not outputs:
            outputs = _written(func, args)
        if not outputs:
            return result
        random = torch.Tag.nondeterministic_seeded in func.tags and _draws(func, args, kwargs)
        new = self._watch.after(str(func), inputs, outputs, _attributes(func, args, kwargs), random=random)
        return result if new is None else _put(result, outputs, inputs, new)

    def _known(self, func: Any, inputs: List[Any], args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
        """What the sink knows an operation to make that changes nothing; None where it has to run."""
        if func._schema.is_mutable or len(func._schema.returns) != 1:  # noqa: SLF001 - as in _written
            return None
        return self._watch.known(str(func), inputs, lambda: _attributes(func, args, kwargs))

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Answer whether PyTorch's compiler is to be kept away from this mode.

        PyTorch asks every class of modes, and would import its compiler, which takes seconds.
        """
        return _COMPILER in sys.modules


_BESIDE_COMPILER: List[Type[_Mode]] = []


def _mode() -> Type[_Mode]:
    """The mode, or a class of it that PyTorch's compiler must not compile.

    The latter is for when the compiler is there.
    """
    if _COMPILER not in sys.modules:
        return _Mode
    if not _BESIDE_COMPILER:
        _BESIDE_COMPILER.append(type("_BesideCompiler", (_Mode,), {"__torch_dispatch__": _Mode.__torch_dispatch__}))
    return _BESIDE_COMPILER[0]


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _read(func: Any, kwargs: Dict[str, Any]) -> Dict[str, Any]:
    """The keyword arguments that an operation reads: not those that it only fills (``out``)."""
    filled = {argument.name for argument in func._schema.arguments if argument.is_out}  # noqa: SLF001 - as in _written
    return {name: value for name, value in kwargs.items() if name not in filled}


def _written(func: Any, args: Tuple[Any, ...]) -> List[Any]:
    """The arguments that an operation without results has written into."""
    written = [argument.alias_info is not None and argument.alias_info.is_write for argument in func._schema.arguments]  # noqa: SLF001 - PyTorch documents the schema, under this name
    return [t for value, is_written in zip(args, written) if is_written for t in tensors(value, _is_tensor)]


def _draws(func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> bool:
    """Whether an operation that can be random is.

    Layers without dropout, and dropout outside of training, are not.
    """
    known = {argument.name: argument.default_value for argument in func._schema.arguments}  # noqa: SLF001 - as above
    known.update(zip(list(known), args))
    known.update(kwargs)
    probability = known.get("dropout_p", known.get("dropout"))  # the latter of recurrent kernels
    if probability == 0.0:
        return False
    return known.get("train") is not False and known.get("training") is not False


def _attributes(func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Dict[str, Any]:
    schema = func._schema.arguments  # noqa: SLF001 - as above
    given = {argument.name: argument.default_value for argument in schema if argument.name in _SAID_ALWAYS}
    given.update(kwargs)
    given.update(zip((argument.name for argument in schema), args))
    return {
        name: plain_attribute(value)
        for name, value in given.items()
        if value is not None and name not in ("generator", "pin_memory", "memory_format", "layout", "device")
        if not isinstance(value, (torch.Tensor, list, tuple, dict)) or not tensors(value, _is_tensor)
    }


def _put(result: Any, outputs: List[Any], inputs: List[Any], new: List[Any]) -> Any:
    """The result with other values.

    They are written into what was changed in place, and take the place of what was made anew.
    """
    placed = []
    for old, value in zip(outputs, new):
        if value is not old and any(old is given for given in inputs):
            with torch.no_grad():
                old.copy_(value)
            value = old  # noqa: PLW2901 - the same tensor with other values
        placed.append(value)
    return replaced(result, _is_tensor, iter(placed))


def dense(gradient: Any) -> Any:
    """A gradient whose rows alone are kept as a whole tensor; any other as it is.

    That is one of a sparse embedding.
    """
    if gradient is None or gradient.layout is torch.strided:
        return gradient
    return gradient.to_dense()


def on_gradient(tensor: Any, sink: Callable[[Any], Any]) -> Optional[Callable[[], None]]:
    """As ``Observing.on_gradient``."""
    if not tensor.requires_grad:
        return None

    def hook(gradient: Any) -> Any:
        if gradient is None:
            return None
        if gradient.layout is not torch.strided:
            sink(dense(gradient))  # what the sink gives back cannot take the place of rows
            return None
        return sink(gradient)

    with contextlib.suppress(RuntimeError):  # a view that was made without gradients and changed since
        remove: Callable[[], None] = tensor.register_hook(hook).remove
        return remove
    return None
