"""PyTorch's automatic casts that have no effect on the device in use."""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, Optional
from weakref import WeakKeyDictionary

import torch


@contextmanager
def idle_casts(source: Callable[[], Optional[str]], on_cpu: bool) -> Iterator[Dict[str, None]]:
    """Note the user's lines that switch automatic casts on and get none.

    PyTorch switches those for CUDA off where there is no CUDA; those of objects that were made before are not told apart from casts
    that the program has switched off itself.

    Args:
        source: gives the user's line of the call in progress.
        on_cpu: whether the model computes on a CPU, where casts for CUDA change nothing.
    """
    found: Dict[str, None] = {}
    autocast: Any = getattr(torch, "autocast", None)
    if autocast is None:  # before version 1.10
        yield found
        return
    asked: "WeakKeyDictionary[Any, str]" = WeakKeyDictionary()
    made, entered = autocast.__init__, autocast.__enter__
    signature = inspect.signature(made)

    def make(self: Any, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **kwargs)
        if signature.bind(self, *args, **kwargs).arguments.get("enabled", True):
            asked[self] = source() or ""

    def enter(self: Any) -> Any:
        inside = entered(self)
        idle = not getattr(self, "_enabled", True) or (on_cpu and getattr(self, "device", "cpu") == "cuda")
        if idle and asked.get(self):
            found[asked[self]] = None
        return inside

    autocast.__init__, autocast.__enter__ = make, enter
    try:
        yield found
    finally:
        autocast.__init__, autocast.__enter__ = made, entered


def computes_on_cpu(model: Any) -> bool:
    """Whether all parameters of a module lie on the CPU."""
    if not isinstance(model, torch.nn.Module):
        return False
    return all(p.device.type == "cpu" for p in model.parameters())
