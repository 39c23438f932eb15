"""How far two arrays are apart, and from where on they count as equal."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

#: relative error up to which two arrays count as equal: some roundings of float32
EQUAL = 3e-6


def apart(reference: Array, candidate: Array) -> float:
    """Relative L2 error of arrays of one shape.

    Infinite where shapes, NaN or infinities differ.
    """
    if reference.shape != candidate.shape or not (np.isfinite(reference).all() and np.isfinite(candidate).all()):
        same = reference.shape == candidate.shape and np.array_equal(reference, candidate, equal_nan=True)
        return 0.0 if same else float("inf")
    size = float(np.linalg.norm(reference))
    error = float(np.linalg.norm(reference - candidate))
    return error / size if size else error
