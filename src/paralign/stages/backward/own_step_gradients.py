"""How the gradients of one own step compare.

Alike, a multiple of the other side's, or neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from paralign.worker.session import DOUBLE

if TYPE_CHECKING:
    from paralign.stages.backward.own_step_records import Steps

#: gradients are a multiple of others if what is left is below this share of them
MULTIPLE = 1e-5


@dataclass
class Compared:
    """How gradients of one step compare.

    ``alike``, or ``factor`` times the reference's but for ``left``; ``error`` as they are.
    """

    alike: bool
    factor: float | None
    error: float
    left: float


def compare_gradients(steps: Steps, runs: tuple[str, str], step: int) -> Compared | None:
    """How the candidate's gradients of a step compare with the reference's.

    None where there are none.
    """
    found_ones, found_others = [], []
    for _, _, one, other in steps.values("gradient", runs, step):
        if other is not None and one.array.size:
            found_ones.append(one.array.astype(np.float64).ravel())
            found_others.append(other.array.astype(np.float64).ravel())
    if not found_ones:
        return None
    ones, others = np.concatenate(found_ones), np.concatenate(found_others)
    size = float(ones @ ones)
    if not size:
        return None
    factor = float(ones @ others) / size
    error, left = (float(np.linalg.norm(others - f * ones)) / size**0.5 for f in (1.0, factor))
    allowed = MULTIPLE if DOUBLE in runs else 100 * MULTIPLE
    is_multiple = factor and left <= allowed * abs(factor)
    return Compared(error <= allowed, factor if is_multiple else None, error, left)
