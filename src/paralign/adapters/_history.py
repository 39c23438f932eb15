"""What a model's buffers held when registered, and before a checkpoint was loaded.

And what changed them.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Sequence

from paralign.adapters.base import History, Place
from paralign.dtypes import Typed
from paralign.errors import UnsupportedTensor

if TYPE_CHECKING:
    from paralign.adapters._calls import SourceLine
    from paralign.adapters.base import Adapter


@contextmanager
def remembered(adapter: "Adapter", cls: Any, loaders: Sequence[str], source: "SourceLine") -> Iterator[History]:
    """Watch buffers, module runs and loaded checkpoints in this thread.

    Methods are wrapped for the time.

    Args:
        adapter: of the framework.
        cls: the class that modules derive from.
        loaders: its methods that load a state.
        source: finds the user's lines.
    """
    history, thread = History(), threading.get_ident()
    register, originals = cls.register_buffer, {name: getattr(cls, name) for name in loaders}
    call = cls.__call__
    running: List[Any] = []

    def register_buffer(self: Any, name: str, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        made = register(self, name, tensor, *args, **kwargs)
        if threading.get_ident() == thread and adapter.is_tensor(tensor):
            _keep(adapter, history.registered, (id(self), name), tensor)
            history.lines[id(self), name] = source.stack()
            history.modules.append(self)
        return made

    def wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
        def load(self: Any, *args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() == thread:
                history.replaces |= bool(kwargs.get("assign"))
                _note_state(adapter, history, self)
            return original(self, *args, **kwargs)

        return load

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - it stands in for one
        if running or threading.get_ident() != thread:
            return call(self, *args, **kwargs)
        before = _buffers(adapter, self)
        running.append(self)
        try:
            return call(self, *args, **kwargs)
        finally:
            running.clear()
            after = _buffers(adapter, self)
            history.ran |= {place for place, value in before.items() if place in after and not _same(value, after[place])}
            history.modules.append(self)

    cls.register_buffer, cls.__call__ = register_buffer, __call__
    for name, original in originals.items():
        setattr(cls, name, wrapped(original))
    try:
        yield history
    finally:
        cls.register_buffer, cls.__call__ = register, call
        for name, original in originals.items():
            setattr(cls, name, original)


def _note_state(adapter: "Adapter", history: History, module: Any) -> None:
    """Keep what a module's untrained tensors hold before the first checkpoint is loaded."""
    modules = dict(adapter.modules(module))
    for entry in adapter.state(module):
        place = id(modules.get(entry.owner)), entry.leaf
        if not entry.trainable and entry.owner in modules and place not in history.before_load:
            _keep(adapter, history.before_load, place, entry.tensor)
    history.modules.append(modules)


def _buffers(adapter: "Adapter", module: Any) -> Dict[Place, Typed]:
    """What the buffers of a module and of those in it hold."""
    modules = dict(adapter.modules(module))
    held: Dict[Place, Typed] = {}
    for entry in adapter.state(module):
        if entry.role == "buffer" and entry.owner in modules:
            _keep(adapter, held, (id(modules[entry.owner]), entry.leaf), entry.tensor)
    return held


def _same(one: Typed, other: Typed) -> bool:
    return one.array.shape == other.array.shape and bool((one.array == other.array).all())


def _keep(adapter: "Adapter", values: Dict[Place, Typed], place: Place, tensor: Any) -> None:
    try:
        value = adapter.to_array(tensor)
        values[place] = Typed(value.array.copy(), value.dtype)
    except UnsupportedTensor:  # as of a tensor that has no values yet
        values.pop(place, None)
