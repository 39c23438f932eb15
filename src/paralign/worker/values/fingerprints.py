"""Fingerprints of values seen before, looked up by a hash of their bytes.

An experiment runs a model again with one value changed: most of what it computes is, bit by bit, what the run before computed. A hash
of a value's bytes costs a tenth of its digest and sketch. Nothing is assumed of the model: a value that it makes otherwise has other bytes.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Dict, NamedTuple, Optional, Tuple

import numpy as np

if TYPE_CHECKING:
    from paralign.dtypes import Typed

#: bytes of sketches that are kept, those of 8,000 values; a table that is full takes no more until it is emptied
BUDGET = 64 << 20

#: bits of Python's hash of bytes: with fewer, two values could have one by chance
_BITS = 64

#: bytes that are hashed at a time: Python's hash takes a copy of them
BLOCK = 1 << 22

#: element type, number of bytes, and the hashes of their blocks
Key = Tuple[str, int, Tuple[int, ...]]


class Fingerprint(NamedTuple):
    """Digest and sketch of a value; ``rest``: of what is not masked, None without a mask."""

    digest: Optional[str]
    sketch: Any
    rest: Optional[str]


class Fingerprints:
    """What is known of values by their bytes."""

    def __init__(self, budget: int = BUDGET) -> None:
        self._budget, self._kept = budget, 0
        self._known: Dict[Key, Fingerprint] = {}

    def __len__(self) -> int:
        return len(self._known)

    @property
    def is_full(self) -> bool:
        """Whether no more is taken."""
        return self._kept >= self._budget

    def clear(self) -> None:
        """Forget everything."""
        self._known.clear()
        self._kept = 0

    def find(self, key: Optional[Key]) -> Optional[Fingerprint]:
        """What is known of a value, None where it was not seen."""
        return None if key is None else self._known.get(key)

    def keep(self, key: Optional[Key], found: Fingerprint) -> None:
        """Remember a value's fingerprint, as long as there is room."""
        if key is None or self.is_full or key in self._known:
            return
        self._known[key] = found
        self._kept += len(found.digest or "") + (0 if found.sketch is None else found.sketch.nbytes)


def key_of(value: Typed) -> Optional[Key]:
    """What a value is known by.

    None where its elements do not lie in order: sums over them in another order are rounded otherwise.

    >>> import numpy as np
    >>> from paralign.dtypes import typed
    >>> key_of(typed(np.arange(6.0))) == key_of(typed(np.arange(6.0).reshape(2, 3)))
    True
    >>> key_of(typed(np.arange(6.0))) == key_of(typed(np.arange(6.0)[::-1].copy()))
    False
    """
    array = value.array
    if sys.hash_info.width < _BITS or not array.flags.c_contiguous or array.dtype.hasobject:
        return None
    flat = array.reshape(-1).view(np.uint8)
    blocks = tuple(hash(flat[start : start + BLOCK].tobytes()) for start in range(0, flat.size, BLOCK))
    return value.dtype, array.nbytes, blocks
