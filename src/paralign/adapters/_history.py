"""What a model's buffers held when they were registered, and what its state held before a checkpoint was loaded into it."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, Sequence

from paralign.adapters.base import History, Place
from paralign.dtypes import Typed
from paralign.errors import UnsupportedTensor

if TYPE_CHECKING:
    from paralign.adapters._calls import SourceLine
    from paralign.adapters.base import Adapter


@contextmanager
def remembered(adapter: "Adapter", cls: Any, loaders: Sequence[str], source: "SourceLine") -> Iterator[History]:
    """Watch buffers being registered and checkpoints being loaded in this thread, by wrapping methods of a class for a time.

    Args:
        adapter: of the framework.
        cls: the class that modules derive from.
        loaders: its methods that load a state.
        source: finds the user's lines.
    """
    history, thread = History(), threading.get_ident()
    register, originals = cls.register_buffer, {name: getattr(cls, name) for name in loaders}

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

    cls.register_buffer = register_buffer
    for name, original in originals.items():
        setattr(cls, name, wrapped(original))
    try:
        yield history
    finally:
        cls.register_buffer = register
        for name, original in originals.items():
            setattr(cls, name, original)


def _note_state(adapter: "Adapter", history: History, module: Any) -> None:
    """Keep what a module's untrained tensors hold before the first checkpoint that is loaded into them."""
    modules = dict(adapter.modules(module))
    for entry in adapter.state(module):
        place = id(modules.get(entry.owner)), entry.leaf
        if not entry.trainable and entry.owner in modules and place not in history.before_load:
            _keep(adapter, history.before_load, place, entry.tensor)
    history.modules.append(modules)


def _keep(adapter: "Adapter", values: Dict[Place, Typed], place: Place, tensor: Any) -> None:
    try:
        value = adapter.to_array(tensor)
        values[place] = Typed(value.array.copy(), value.dtype)
    except UnsupportedTensor:  # as of a tensor that has no values yet
        values.pop(place, None)
