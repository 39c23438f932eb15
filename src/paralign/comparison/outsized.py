"""Values beside which all others are nothing: scores of -1e6 where a mask stands.

The error of a tensor is a share of all its values. A few outsized ones make any mistake of the others a small share; these others are
judged by themselves too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from paralign.dtypes import Typed, widen

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

#: by which factor the least of the outsized values is above the greatest of all others
GAP = 100.0


def outsized(values: NDArray[Any]) -> NDArray[np.bool_] | None:
    """Where the outsized values of a tensor are; None where none stand out.

    Args:
        values: floating, of any shape; infinities and NaN are no values.

    >>> outsized(np.array([0.5, -1e6, 2.0, -1e6])).tolist(), outsized(np.array([0.5, 3.0, 40.0, 300.0]))
    ([False, True, False, True], None)
    """
    with np.errstate(invalid="ignore"):
        sizes = np.abs(np.where(np.isfinite(values), values, 0.0))
    greatest = float(sizes.max(initial=0.0))
    large = sizes >= greatest / GAP
    rest = float(np.where(large, 0.0, sizes).max(initial=0.0))
    if rest == 0.0 or float(sizes[large].min()) < GAP * rest:
        return None
    return large


def without(value: Typed, places: NDArray[np.bool_]) -> Typed:
    """A tensor in float64 with zeros at some places, which have no share in its errors.

    Args:
        value: of the places' shape, but for axes of length 1.
        places: where zeros are put.
    """
    return Typed(np.where(places, 0.0, widen(value).reshape(places.shape).astype(np.float64)), "float64")
