"""Which tensors are abnormally small in one of two trained checkpoints.

Weight decay keeps weights small. A parameter that decays in one training and not in the other (a wrong no-weight-decay group) ends
smaller there, by a factor that its fellows in the model do not share: the migration guides tell to look for that. The root mean
square of a tensor does not depend on its layout, and hardly on the seed.
"""

from __future__ import annotations

import math
import re
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paralign.conversion.spread import Spread


@dataclass
class Group:
    """Tensors whose names differ only in numbers.

    Args:
        name: theirs, with ``{}`` for the numbers.
        tensors: how many there are.
        elements: in all of them.
        means: median of the means of each checkpoint's tensors.
        deviations: median of the standard deviations.
        factor: how much larger they are in the second checkpoint than in the first (median of the quotients of root mean squares).
        usual: the same of all other tensors, by elements.
        smaller: ``first`` or ``second`` where they are abnormally small in one checkpoint, else ''.
    """

    name: str
    tensors: int = 0
    elements: int = 0
    means: tuple[float, float] = (0.0, 0.0)
    deviations: tuple[float, float] = (0.0, 0.0)
    factor: float = 1.0
    usual: float = 1.0
    smaller: str = ""
    quotients: list[float] = field(default_factory=list, repr=False)


def groups(pairs: Sequence[tuple[str, tuple[Spread, Spread]]]) -> list[Group]:
    """stub"""
    return []
