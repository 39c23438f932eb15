"""Paddle's automatic casts, switched off in a way that no program notices."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from functools import wraps
from typing import Any, Callable, Dict, Iterator, Optional

import paddle
from paddle.base.framework import _dygraph_tracer

#: where Paddle keeps what ``amp_state()`` returns; ``paddle.amp.auto_cast`` itself is a function
_MODULE = "paddle.amp.auto_cast"
_STATE = "_g_amp_state_"
#: the tracer's attribute that switches casts; there is no public one that leaves the state alone
_LEVEL = "_amp_level"
#: the function of that module that every way to automatic casts calls
_GUARD = "amp_guard"


@contextmanager
def no_autocast() -> Iterator[None]:
    """Automatic casts off; nothing is touched where they are off already.

    ``paddle.amp.auto_cast(enable=False)`` will not do: under it ``amp_state()`` is a filled dictionary, which programs take for automatic
    casts (a norm that then rounds to float16), and it leaves its element type and a hook of the backward pass behind.
    """
    tracer, off = _dygraph_tracer(), paddle.base.core.AmpLevel.O0
    module = sys.modules[_MODULE]
    state = getattr(module, _STATE, None)
    if tracer is None or (getattr(tracer, _LEVEL) == off and state is None):
        yield
        return
    level = getattr(tracer, _LEVEL)
    setattr(tracer, _LEVEL, off)
    setattr(module, _STATE, None)
    try:
        yield
    finally:
        setattr(tracer, _LEVEL, level)
        setattr(module, _STATE, state)


@contextmanager
def idle_casts(source: Callable[[], Optional[str]]) -> Iterator[Dict[str, None]]:
    """Note the user's lines that switch automatic casts on and get none, as all do on a CPU.

    Args:
        source: gives the user's line of the call in progress.
    """
    found: Dict[str, None] = {}
    module = sys.modules[_MODULE]
    guard = getattr(module, _GUARD, None)
    if guard is None:  # another version
        yield found
        return

    @wraps(guard)
    @contextmanager
    def watched(enable: bool = True, *args: Any, **kwargs: Any) -> Iterator[Any]:
        with guard(enable, *args, **kwargs) as inside:
            level = str((args[2:3] or [kwargs.get("level", "O1")])[0]).upper()
            tracer = _dygraph_tracer()
            off = tracer is not None and getattr(tracer, _LEVEL) == paddle.base.core.AmpLevel.O0
            line = source() if enable and off and level != "O0" else None
            if line is not None:
                found[line] = None
            yield inside

    setattr(module, _GUARD, watched)
    try:
        yield found
    finally:
        setattr(module, _GUARD, guard)
