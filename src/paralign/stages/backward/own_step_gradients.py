"""How the gradients of one own step compare.

Alike, a multiple of the other side's, or neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from paralign.worker.sides.session import DOUBLE

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
    return _compare(steps, "gradient", runs, step)


def other_batch(steps: Steps, runs: tuple[str, str]) -> int | None:
    """The first later step whose gradients differ although the parameters before it are equal.

    Its batch then shows what the first one does not. None where there is none, or all steps have one batch.
    """
    for step in range(1, min(steps.context.settings.steps, steps.batches)):
        moved, gradients = _compare(steps, "parameter", runs, step - 1), compare_gradients(steps, runs, step)
        if moved is None or gradients is None or not moved.alike:
            return None
        if not gradients.alike:
            return step
    return None


def _compare(steps: Steps, role: str, runs: tuple[str, str], step: int) -> Compared | None:
    """How the values of a role compare, all together."""
    found_ones, found_others = [], []
    for _, _, one, other in steps.values(role, runs, step):
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
