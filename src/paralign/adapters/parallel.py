"""What a framework adds where it runs in several processes.

Batch normalisation over all of them on a CPU, and a trial of talking.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Callable, Optional, cast

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import numpy as np

try:
    from typing import Protocol
except ImportError as missing:  # pragma: no cover - Python 3.7 and older
    raise ImportError("paralign's worker needs Python 3.8 or newer") from missing

_HOMES = {"torch": "paralign.adapters._parallel_torch", "paddle": "paralign.adapters._parallel_paddle"}


class Parallel(Protocol):
    """One framework's part; a module has these functions."""

    def synchronise_on_cpu(self) -> None:
        """Let ``SyncBatchNorm`` compute on the CPU until the process ends.

        The frameworks have no kernel for it there.
        """

    def after_backward(self, act: "Callable[[], None]") -> "AbstractContextManager[None]":
        """Call ``act`` after each backward pass inside the context.

        Gradients are exchanged by then, and neither clipped nor used.
        """

    def join(self, device: str) -> None:
        """Join the group of processes that the launcher has started.

        With gloo on the CPU, with NCCL on GPUs.
        """

    def total(self, value: "np.ndarray[Any, Any]", device: str) -> "np.ndarray[Any, Any]":
        """The sum over all processes; every one of them has to call it."""

    def draw_of_loader(self, loader: Any) -> "Optional[Callable[[], None]]":
        """What ``iter(loader)`` draws from the framework's generator whatever the program is.

        None where it draws nothing by itself, or from a generator of its own.
        """


def parallel(framework: str) -> Optional[Parallel]:
    """A framework's part; None of one that has none."""
    home = _HOMES.get(framework)
    return None if home is None else cast("Parallel", import_module(home))
