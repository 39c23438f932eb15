"""How finely a parameter's change can be seen.

What is stored is weight plus change, rounded after every step.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.comparison.judge import LOUD
from paralign.dtypes import EPS
from paralign.model import ALIGNED, DIVERGED, UNDERPOWERED, Noise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paralign.locate.optimizer.update_rules import Trace
    from paralign.model import Pair


def rms(values: np.ndarray[Any, Any]) -> float:
    """Root mean square, 0 of an empty array."""
    return float(np.sqrt(np.mean(np.square(values.astype(np.float64))))) if values.size else 0.0


def stored(dtype: str, weight: float, change: float, steps: int) -> float:
    """The rounding of a stored parameter, relative to what some steps changed together.

    Both sides round each step by at most half a unit in the last place of the weight, so the two differ by no more than one unit a step.
    In the mean over many elements such differences grow with the root of the steps; twice that holds for few elements too.

    Args:
        dtype: what the parameter is stored in.
        weight: root mean square of the parameter.
        change: root mean square of the change.
        steps: how often it was stored.

    Example:
        >>> bool(1e-6 < stored("float64", 1.0, 1e-10, 3) < 1e-5)
        True
        >>> stored("float64", 1.0, 0.0, 3)
        inf
    """
    return 2 * EPS[dtype] * weight * math.sqrt(steps) / change if change else math.inf


def storing_noise(dtype: str, weight: float, change: float, steps: int) -> Noise:
    """As :func:`stored`, as the noise of a change."""
    return Noise(stored(dtype, weight, change, steps), f"storing the parameter in {dtype}")


def of_steps(trace: Trace, dtype: str) -> float:
    """The share of single steps that storing the parameter makes.

    Steps may cancel, then the whole change tells less of it.
    """
    sizes = [float(np.linalg.norm(trace.steps[side])) for side in ("reference", "candidate")]
    moved = sizes[0] or sizes[1]
    return stored(dtype, float(np.linalg.norm(trace.weight)), moved, len(trace.gradients)) if moved else 0.0


def leave_out(pairs: Sequence[Pair], resolutions: dict[str, float]) -> set[str]:
    """Do not judge changes that storing them hides.

    Where it hides all of them, the test of the update is too weak.

    Args:
        pairs: judged changes.
        resolutions: key -> the share of the change that rounding of the stored parameter makes, of parameters that had a gradient.

    Returns:
        The keys of the changes that are hidden.
    """
    hidden = [p for p in pairs if resolutions.get(p.key, 0.0) > LOUD and p.verdict != DIVERGED]
    others_are_seen = any(resolutions.get(p.key, math.inf) <= LOUD for p in pairs)
    for pair in hidden:
        if others_are_seen:
            pair.judged, pair.verdict = False, ALIGNED
        else:
            pair.judged, pair.verdict = True, UNDERPOWERED
        pair.notes.append("changes by less than can be seen beside the stored parameter")
    return {p.key for p in hidden}
