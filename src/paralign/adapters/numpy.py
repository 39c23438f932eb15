"""Plain numpy: a model is any callable.

The root and the callable objects that it holds, in attributes, lists and dicts, are its modules; the arrays that they hold
are its state. ``observe`` replaces ``__call__`` of their classes for the time of the observation, so it sees objects whose
class defines ``__call__`` in Python; a plain function has no class of its own and is not seen.
"""

from __future__ import annotations

import inspect
import sys
import types
from contextlib import ExitStack, contextmanager, nullcontext
from functools import lru_cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

import numpy as np

from paralign.adapters import _exported, _modes, _values
from paralign.adapters._calls import Calls, SourceLine, Target, in_stdlib
from paralign.adapters._lending import Attributes
from paralign.adapters.base import Entry
from paralign.capture import sketch as _sketch
from paralign.capture.digest import moments
from paralign.dtypes import RAW, STORAGE, Typed, canonical, is_complex, is_floating, typed
from paralign.errors import EnvironmentUnavailable, UnsupportedTensor, UsageError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from paralign.adapters.base import Select, Sink


class NumpyAdapter:
    """Callables and arrays."""

    name = "numpy"

    def __init__(self) -> None:
        self._source = SourceLine([str(Path(np.__file__).parent)])

    def versions(self) -> Dict[str, str]:
        """The version of numpy."""
        return {"numpy": np.__version__}

    def devices(self) -> List[str]:
        """The CPU."""
        return ["cpu"]

    def use_device(self, device: str) -> None:
        """Accept ``cpu``."""
        if device != "cpu":
            raise EnvironmentUnavailable(f"numpy has no device {device!r}", hint="choose: cpu")

    def place(self, model: Any) -> Any:
        """The model as it is."""
        return model

    def flags(self) -> Dict[str, Any]:
        """Nothing: numpy has no setting that changes results."""
        return {}

    def seed(self, seed: int) -> None:
        """Seed numpy's global generator and ``random``.

        Generators of the user's own are theirs to seed.
        """
        _exported.seed_host(seed)

    def is_tensor(self, value: Any) -> bool:
        """Whether ``value`` is an array or a numpy scalar of a number or bool."""
        return isinstance(value, (np.ndarray, np.number, np.bool_))

    def is_model(self, value: Any) -> bool:
        """Whether ``value`` can be called and is no class."""
        return callable(value) and not isinstance(value, type)

    def to_array(self, tensor: Any) -> Typed:
        """The array itself where it has native byte order; raw bits for types of ``ml_dtypes``."""
        if isinstance(tensor, np.ma.MaskedArray):
            raise UnsupportedTensor("a masked array cannot be recorded", hint="call .filled(value) on it")
        return typed(tensor)

    def fingerprint(self, tensor: Any, sketch: bool = True) -> "Tuple[str, Optional[np.ndarray[Any, Any]]]":
        """Digest and sketch, by the functions of ``capture``."""
        value = self.to_array(tensor)
        return moments(value), _sketch.sketch(value) if sketch else None

    def sketch(self, tensor: Any) -> "np.ndarray[Any, Any]":
        """The sketch alone."""
        return _sketch.sketch(self.to_array(tensor))

    def version(self, tensor: Any) -> Optional[int]:  # noqa: ARG002 - numpy keeps no count of writes
        """A number that grows with every write to the tensor in place; None without one."""
        return None

    def from_array(self, value: Typed) -> Any:
        """A new array; bfloat16 and float8 become types of ``ml_dtypes``.

        Raises:
            UnsupportedTensor: such a type, and ``ml_dtypes`` cannot be imported.
        """
        array = _values.fresh(value)
        return array.view(_extension(value.dtype)) if value.dtype in RAW else array

    def modules(self, model: Any) -> List[Tuple[str, Any]]:
        """The root and every callable object below it."""
        return [("", model), *((path, owner) for path, owner in _owners(model) if path and _is_module(owner))]

    def kind(self, module: Any) -> str:  # noqa: ARG002 - the same for all
        """Nothing: numpy has no layers."""
        return ""

    def state(self, model: Any) -> List[Entry]:
        """Every array, named by its attribute path.

        It is a buffer unless it lies in a dict attribute called ``parameters``.
        """
        return [entry for entry, _, _ in _arrays(model)]

    def load_state(self, model: Any, values: Dict[str, Typed]) -> None:
        """Write into the arrays, which stay the same objects.

        Raises:
            UsageError: also for an array that is read-only.
        """
        pairs = _values.matched(self.state(model), values, lambda array: (array.shape, canonical(array.dtype)))
        for entry, _ in pairs:
            if not entry.tensor.flags.writeable:
                raise UsageError("this array of the model is read-only", where=entry.name, hint="give the model a copy of it")
        for entry, value in pairs:
            dtype = canonical(entry.tensor.dtype)
            new = _values.converted(value, dtype)
            entry.tensor[...] = new.array.view(entry.tensor.dtype) if new.dtype in RAW else new.array

    @contextmanager
    def observe(self, model: Any, sink: Sink, select: Optional[Select] = None) -> Iterator[None]:
        """Replace ``__call__`` of the modules' classes.

        ``inputs`` are the arguments, then a dict of the keyword arguments if any.
        """
        targets = {}
        modules = [(path, module) for path, module in self.modules(model) if _is_module(module)]
        for path, module in modules:
            below = path + "." if path else ""
            leaf = not any(other != path and other.startswith(below) for other, _ in modules)
            targets[id(module)] = Target(path, type(module).__name__, "", leaf=leaf, watched=select is None or select(path, module))
        calls = Calls(sink, self._source)
        with ExitStack() as stack:
            for cls in {type(module): None for _, module in modules}:
                stack.enter_context(replaced(cls, targets, calls))
            yield

    def cast(self, model: Any, dtype: str) -> None:
        """Cast floating arrays, complex ones to match.

        An array cannot change its type: it is replaced where it is held.

        The same array held twice is replaced by the same new array; references elsewhere keep the old one.
        """
        complex_target = _values.FLOATING[_values.castable(dtype)]
        new: Dict[int, Any] = {}
        for entry, holder, key in _arrays(model):
            name = canonical(entry.tensor.dtype)
            target = complex_target if is_complex(name) else dtype
            if not is_floating(name) or target in (None, name):
                continue
            if id(entry.tensor) not in new:
                value = _values.converted(typed(entry.tensor), str(target))
                new[id(entry.tensor)] = value.array.astype(_extension(dtype)) if dtype in RAW else value.array
            holder[key] = new[id(entry.tensor)]

    def train(self, model: Any, mode: str) -> None:  # noqa: ARG002 - the same for all models
        """Nothing but a check of the mode's name: a callable has no modes."""
        if mode not in _modes.MODES:
            raise UsageError(f"there is no mode {mode!r}", hint="choose one of: " + ", ".join(_modes.MODES))

    def no_grad(self) -> AbstractContextManager[None]:
        """An empty context."""
        return nullcontext()

    def mode(self, model: Any) -> Any:  # noqa: ARG002 - the same for all models
        """Nothing."""
        return None

    def set_mode(self, model: Any, mode: Any) -> None:
        """Nothing to put back."""

    def afresh(self) -> AbstractContextManager[None]:
        """An empty context."""
        return nullcontext()

    def process_state(self) -> Any:
        """Nothing: the generators of numpy and of Python are everybody's."""
        return None

    def put_process_state(self, state: Any) -> None:
        """Nothing to put back."""

    def lend(self, model: Any) -> Callable[[], None]:
        """Keep every writable array with its values and its place, and objects' attributes."""
        attributes = Attributes(owner for _, owner in _owners(model))
        held = [(holder, key, entry.tensor, entry.tensor.copy()) for entry, holder, key in _arrays(model)]

        def give_back() -> None:
            attributes.restore()
            for holder, key, array, values in held:
                holder[key] = array
                if array.flags.writeable:
                    array[...] = values

        return give_back


def _extension(dtype: str) -> Any:
    try:
        import ml_dtypes
    except ImportError as missing:
        raise UnsupportedTensor(f"numpy has no type {dtype}", hint="install ml_dtypes for this interpreter, or use float32") from missing
    return np.dtype(getattr(ml_dtypes, dtype))


def _is_module(value: Any) -> bool:
    """Whether a value's class defines ``__call__`` in Python, so that calls are seen."""
    return callable(value) and isinstance(inspect.getattr_static(type(value), "__call__", None), types.FunctionType)


def _is_owner(value: Any) -> bool:
    """Whether a value is an object that may hold state.

    One of neither Python's nor numpy's own classes.
    """
    if isinstance(value, types.SimpleNamespace):
        return True
    if not hasattr(value, "__dict__") or isinstance(value, (type, types.ModuleType, types.FunctionType, types.MethodType, np.ndarray)):
        return False
    home = type(value).__module__
    source = getattr(sys.modules.get(home), "__file__", None)
    if home.split(".")[0] in ("numpy", *sys.builtin_module_names):
        return False
    return not (source and in_stdlib(source))


def _owners(model: Any) -> Iterator[Tuple[str, Any]]:
    """Paths and objects, the root first, each object once, in the order of its attributes."""
    root = getattr(model, "__self__", model) if isinstance(model, types.MethodType) else model
    seen: Set[int] = set()

    def walk(path: str, value: Any) -> Iterator[Tuple[str, Any]]:
        if id(value) in seen or not (isinstance(value, (list, tuple, dict)) or _is_owner(value)):
            return
        seen.add(id(value))
        if _is_owner(value):
            yield path, value
        for key, item in _items(value):
            yield from walk(f"{path}.{key}" if path else str(key), item)

    yield from walk("", root)


def _items(value: Any) -> List[Tuple[Any, Any]]:
    if isinstance(value, dict):
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, (list, tuple)) else list(vars(value).items())


def _arrays(model: Any) -> Iterator[Tuple[Entry, Any, Any]]:
    """Every array as an entry, with the list or dict that holds it and the key there."""
    first: Dict[int, str] = {}
    for owner, value in _owners(model):
        for leaf, array, holder, key in _held(vars(value), "", set()):
            name = f"{owner}.{leaf}" if owner else leaf
            trained = leaf.startswith("parameters.")
            entry = Entry(
                name, array, "parameter" if trained else "buffer", owner, leaf, "", trainable=trained, shared=first.get(id(array))
            )
            first.setdefault(id(array), name)
            yield entry, holder, key


def _held(holder: Any, path: str, seen: Set[int]) -> Iterator[Tuple[str, Any, Any, Any]]:
    """Arrays of numbers in the attributes of one object and in the lists and dicts among them."""
    if id(holder) in seen:
        return
    seen.add(id(holder))
    for key, item in list(holder.items() if isinstance(holder, dict) else enumerate(holder)):
        where = f"{path}.{key}" if path else str(key)
        if isinstance(item, np.ndarray) and item.dtype.newbyteorder("=").name in STORAGE:
            yield where, item, holder, key
        elif isinstance(item, (list, dict)):
            yield from _held(item, where, seen)


@contextmanager
def replaced(cls: Any, targets: Dict[int, Target], calls: Calls) -> Iterator[None]:
    """A class whose ``__call__`` reports calls of the watched instances."""
    own = vars(cls).get("__call__")
    cls.__call__ = _reporting(cls.__call__, cls, targets, calls)
    try:
        yield
    finally:
        if own is None:
            del cls.__call__
        else:
            cls.__call__ = own


def _reporting(original: Callable[..., Any], cls: Any, targets: Dict[int, Target], calls: Calls) -> Callable[..., Any]:
    @wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        target = targets.get(id(self)) if type(self) is cls else None  # a subclass that calls super() reports once
        if target is None:
            return original(self, *args, **kwargs)
        calls.begin(target)
        try:
            outputs = original(self, *args, **kwargs)
        except BaseException:
            calls.drop(target)
            raise
        calls.end(target, args, kwargs, outputs)
        return outputs

    return call


@lru_cache(maxsize=None)
def create() -> NumpyAdapter:
    """The adapter of this process."""
    return NumpyAdapter()
