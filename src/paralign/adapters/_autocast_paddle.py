"""Paddle's automatic casts, switched off in a way that no program notices."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import Iterator

import paddle
from paddle.base.framework import _dygraph_tracer

#: where Paddle keeps what ``amp_state()`` returns; ``paddle.amp.auto_cast`` itself is a function
_MODULE = "paddle.amp.auto_cast"
_STATE = "_g_amp_state_"
#: the tracer's attribute that switches casts; there is no public one that leaves the state alone
_LEVEL = "_amp_level"


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
