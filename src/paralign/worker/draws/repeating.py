"""How far a loss and its gradients are from themselves with another seed.

What draws in a loss, or in a backward pass alone, shows nowhere else.
"""

from __future__ import annotations

from typing import Any, Dict, Optional

import numpy as np

from paralign.dtypes import widen

#: elements of each tensor that are kept of a pass, evenly spread: memory stays small beside the gradients themselves
KEPT = 4096

#: the name of a pass's loss beside those of its gradients; no parameter is called so
LOSS = " loss"


def sampled(session: Any, tensor: Any) -> "Optional[np.ndarray[Any, Any]]":
    """Some elements of a tensor, evenly spread, in float64; None where there is no tensor."""
    if tensor is None:
        return None
    flat = np.asarray(widen(session.adapter.to_array(tensor))).reshape(-1)
    return flat[:: max(1, -(-flat.size // KEPT))].astype(np.complex128 if flat.dtype.kind == "c" else np.float64)


def distance(one: "Dict[str, Optional[np.ndarray[Any, Any]]]", other: "Dict[str, Optional[np.ndarray[Any, Any]]]") -> float:
    """The relative L2 distance of two passes' gradients together.

    What is infinite or not a number on either side is left out.
    """
    size, far = 0.0, 0.0
    for name, first in one.items():
        second = other.get(name)
        if first is None or second is None or first.shape != second.shape:
            continue
        finite = np.isfinite(first) & np.isfinite(second)
        size += float(np.sum(np.abs(first[finite]) ** 2))
        far += float(np.sum(np.abs(first[finite] - second[finite]) ** 2))
    if size > 0 and np.isfinite(far):
        return float(np.sqrt(far / size))
    return 0.0


def farthest(one: "Dict[str, Optional[np.ndarray[Any, Any]]]", other: "Dict[str, Optional[np.ndarray[Any, Any]]]") -> float:
    """The greater distance: of the losses, or of all gradients together.

    The latter may be much smaller.
    """
    losses = [{LOSS: each.get(LOSS)} for each in (one, other)]
    gradients = [{name: value for name, value in each.items() if name != LOSS} for each in (one, other)]
    return max(distance(*losses), distance(*gradients))
