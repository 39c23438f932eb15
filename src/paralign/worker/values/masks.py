"""Values that hide others in a digest: very large ones, and masked elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from paralign.capture.digest import figures

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]
else:
    Array = "numpy.ndarray"

#: elements beyond this hide others in a digest
FAR = 1e4

#: elements below this are taken for masked ones, whether -1e4, -1e9 or minus infinity masks them
MASKED = -5e3

#: and this many times as far from zero as all others
GAP = 10.0


def reaches_far(digest: str) -> bool:
    """Whether a few elements may be so large that a digest's figures are theirs alone."""
    known = figures(digest)
    return max(abs(known.low), abs(known.high)) * known.rms > FAR


def reaches_down(digest: str) -> bool:
    """Whether some elements may be masked.

    They are minus infinity, or so far below zero that only a mask brings them there.
    """
    known = figures(digest)
    return known.low * known.rms < MASKED or known.counts[2] > 0


def unmasked(array: Array) -> Optional[Array]:
    """An array with zero for masked elements, whatever number masks them; None where none are.

    Masked elements are far below zero and all others near it: where values only become large, there are others between or above.

    >>> unmasked(np.array([1.0, -1e9, -np.inf]))
    array([1., 0., 0.])
    >>> unmasked(np.array([1.0, -900.0, -8000.0, -9000.0]))
    """
    masked = array < MASKED
    rest = np.where(masked, 0.0, array)
    if not masked.any() or float(np.nanmax(np.abs(rest))) > -float(array[masked].max()) / GAP:
        return None
    return rest
