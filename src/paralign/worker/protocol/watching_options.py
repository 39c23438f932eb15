"""What becomes of single operations, and of random ones: options that several tasks have."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Tuple


@dataclass(frozen=True)
class Redraw:
    """What becomes of random operations.

    Args:
        keep: record what they draw.
        use: number of a random operation -> name of the record in ``draws`` to be used in its place.
        mirrored: numbers of those whose uniform numbers are to count from above.
        by_order: numbers count the random operations alone.
        drawn_in: the run whose draws are used; '' for the run itself.
    """

    keep: bool = False
    use: Dict[str, str] = field(default_factory=dict)
    mirrored: List[int] = field(default_factory=list)
    by_order: bool = False
    drawn_in: str = ""


@dataclass(frozen=True)
class Watch:
    """What becomes of single operations.

    Args:
        keep: values to be recorded whole: (operation, place), (operation, "written") for what it changed besides its results,
            (-1, name) for what was given.
        keep_gradients: the same of gradients.
        undo: numbers of operations that are to hand on their input as it is.
        redraw: what becomes of random ones.
    """

    keep: List[Tuple[int, Any]] = field(default_factory=list)
    keep_gradients: List[Tuple[int, Any]] = field(default_factory=list)
    undo: List[int] = field(default_factory=list)
    redraw: Redraw = field(default_factory=Redraw)
