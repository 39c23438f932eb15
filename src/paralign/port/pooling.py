"""Pooling with ``ceil_mode``, where last windows may begin in the padding.

PyTorch leaves these out, Paddle does not.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from paralign.catalogue.binding import UNREADABLE

if TYPE_CHECKING:
    from paralign.catalogue.binding import Bound

_POOL = re.compile(r"torch\.nn\.(?:(?:Max|Avg)Pool|functional\.(?:max|avg)_pool)[123]d$")

#: what is said of a call that may have such a window
TOLD = "With ceil_mode PyTorch leaves out a last window that begins in the padding: another size where stride > kernel_size - padding."


def last_window(name: str, bound: Bound) -> bool | None:
    """Whether a call may have a last window that begins in the padding.

    None where the source does not show it.

    Such a window needs a stride above ``kernel_size - padding``, on any axis.
    """
    if not _POOL.match(name) or "ceil_mode" not in bound.given or bound.value("ceil_mode") is False:
        return False
    kernel, padding = _axes(bound, "kernel_size"), _axes(bound, "padding")
    stride = _axes(bound, "stride") if bound.given.get("stride") is not None and bound.value("stride") is not None else kernel
    if kernel is None or padding is None or stride is None:
        return None
    size = max(len(kernel), len(padding), len(stride))
    each = [list(one) * size if len(one) == 1 else list(one) for one in (kernel, padding, stride)]
    return any(s > k - p for k, p, s in zip(*each, strict=False)) and (True if bound.value("ceil_mode") is True else None)


def _axes(bound: Bound, name: str) -> tuple[int, ...] | None:
    """The values of an argument; None where they are no literals."""
    value = bound.value(name) if name in bound.given else 0
    if isinstance(value, int):
        return (value,)
    plain = value is not UNREADABLE and isinstance(value, tuple | list) and all(isinstance(each, int) for each in value)
    return tuple(value) if plain and isinstance(value, tuple | list) else None
