"""Paddle's half of :class:`paralign.adapters.base.Lazy`.

``LazyGuard`` builds layers whose parameters have no memory yet.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Callable, Iterator

import paddle


class BuildsLazily:
    """What the adapter has of it."""

    @contextmanager
    def empty(self) -> Iterator[None]:
        """Build layers whose parameters have no memory; buffers hold what the model computed."""
        with paddle.LazyGuard():
            yield

    def fill(self, module: Any) -> None:
        """Give parameters memory.

        Paddle does that once for each: a layer that was dropped stays so.
        """
        for param in module.parameters():
            if not param._is_initialized():  # noqa: SLF001 - Paddle tells it in no other way
                param.initialize()

    def drop(self, module: Any) -> None:
        """Take the memory of parameters away."""
        for param in module.parameters():
            param._clear_data()  # noqa: SLF001 - as above

    def through(self, call: Callable[..., Any]) -> Any:
        """A layer whose forward is a function."""
        return _Through(call)

    def put(self, model: Any, path: str, module: Any) -> None:
        """Put another layer in the place of one."""
        parent, _, name = path.rpartition(".")
        found = dict(model.named_sublayers(include_self=True))[parent]
        found._sub_layers[name] = module  # noqa: SLF001 - setattr refuses the numbers of a list


class _Through(paddle.nn.Layer):  # type: ignore[misc] # Paddle's types are not looked into
    def __init__(self, call: Callable[..., Any]) -> None:
        super().__init__()
        self.call = call

    def forward(self, *values: Any, **named: Any) -> Any:
        return self.call(*values, **named)
