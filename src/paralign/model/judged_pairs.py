"""A pair of records: what was measured on it, what it is granted, and the verdict."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Dict, Iterable, List, Optional, Tuple

if TYPE_CHECKING:
    from paralign.model.records import Record

#: verdicts, from best to worst; the verdict of many is decided by :func:`overall`
ALIGNED, UNDERPOWERED, NOT_TESTED, DIVERGED, ERROR = "aligned", "underpowered", "not tested", "diverged", "error"


@dataclass
class Stats:
    """What was measured on a pair; numbers only, a verdict is asked of them afterwards.

    All figures are over elements that are finite on both sides. Counts and greatest values are exact; sums (``mean_abs``, ``rel_l2``,
    ``cosine``, ``rms``) are within 1e-5 of the true ones for float32 and narrower types, within 1e-9 for others.
    ``error`` is reference minus candidate. ``max_abs_at`` and ``max_rel_at`` are indices into the reference's shape.
    ``rel_l2`` is the norm of the error over the norm of the reference (the error's norm where the reference is zero).
    ``ulp`` maps a quantile (``0.5``, ``0.9``, ``0.99``, ``1``) to a distance in units in the last place of the coarser type.
    ``exceeding`` counts elements beyond the user's ``atol + rtol * |reference|``; None where the user set neither.
    ``mean_abs`` and ``max_rel`` are None, and ``ulp`` is empty, of a pair that differs and was measured for its verdict alone.
    ``nan`` and ``inf`` count elements where the two sides disagree on being NaN or (signed) infinite.
    """

    count: int = 0
    mismatched: int = 0
    max_abs: float = 0.0
    max_abs_at: Optional[Tuple[int, ...]] = None
    mean_abs: Optional[float] = 0.0
    max_rel: Optional[float] = 0.0
    max_rel_at: Optional[Tuple[int, ...]] = None
    rel_l2: float = 0.0
    cosine: float = 1.0
    ulp: Dict[str, float] = field(default_factory=dict)
    exceeding: Optional[int] = None
    nan: int = 0
    inf: int = 0
    nan_reference: int = 0
    nan_candidate: int = 0
    inf_reference: int = 0
    inf_candidate: int = 0
    rms_reference: float = 0.0
    rms_candidate: float = 0.0


@dataclass
class Noise:
    """How far the reference is from itself, as a relative L2 distance; how measured."""

    value: float
    how: str


@dataclass
class Tolerance:
    """What a verdict is derived with: error ÷ noise up to ``ratio``.

    ``atol`` and ``rtol`` only where the user set them.
    """

    ratio: Optional[float] = None
    atol: Optional[float] = None
    rtol: Optional[float] = None

    @property
    def absolute(self) -> bool:
        """Whether it replaces error ÷ noise."""
        return self.atol is not None or self.rtol is not None

    def __str__(self) -> str:
        parts = []
        for name in ("ratio", "atol", "rtol"):
            value = getattr(self, name)
            if value is not None:
                parts.append(f"{name} {value:g}")
        return ", ".join(parts)


class Unjudged(Enum):
    """Why a pair that differs is not judged."""

    #: rounding alone, on both sides
    ROUNDING = "rounding"
    #: frozen on both sides, each in its own way
    FROZEN = "frozen"
    #: reached by nothing of the batch
    UNREACHED = "unreached"
    #: the running variance is kept unbiased by one framework, biased by the other
    BIASED = "biased"
    #: another inherent difference of the frameworks
    INHERENT = "inherent"
    #: judged by something else
    ELSEWHERE = "elsewhere"
    #: drawn at random, each side its own
    DRAWN = "drawn"
    #: a checkpoint decides on it
    LOADED = "loaded"
    #: training changes it
    CHANGING = "changing"
    #: the model was run while it was built
    FILLED = "filled"
    #: nothing trainable depends on it
    UNATTACHED = "unattached"
    #: it differs at the outputs, and no parameter's gradient does
    WITHOUT_EFFECT = "without effect"
    #: only one side has it, and the outputs are equal without
    UNNEEDED = "unneeded"


@dataclass
class Pair:
    """Two records held to be the same point, and what was measured on them.

    Either record may be missing.

    ``granted`` is the user's absolute tolerance where that decided: error ÷ noise then says nothing about the verdict, and is None.
    ``unjudged`` is why :meth:`leave_out` left it out.
    """

    key: str
    reference: Optional[Record]
    candidate: Optional[Record]
    how: str = "name"
    transform: Optional[str] = None
    stats: Optional[Stats] = None
    noise: Optional[Noise] = None
    verdict: str = NOT_TESTED
    notes: List[str] = field(default_factory=list)
    judged: bool = True
    granted: Optional[Tolerance] = None
    unjudged: Optional[Unjudged] = None

    def leave_out(self, why: Unjudged, note: str) -> None:
        """Do not judge it: it counts as aligned, and a note says why."""
        self.verdict, self.judged, self.unjudged = ALIGNED, False, why
        self.notes.append(note)

    @property
    def wrong(self) -> bool:
        """Whether it is judged, and differs."""
        return self.judged and self.verdict == DIVERGED

    @property
    def record(self) -> "Optional[Record]":
        """The reference's record; the candidate's where that is missing."""
        return self.reference if self.reference is not None else self.candidate

    @property
    def noise_value(self) -> float:
        """How large the noise is; 0 without one."""
        return 0.0 if self.noise is None else self.noise.value

    @property
    def error(self) -> Optional[float]:
        """Relative L2 error; infinite where NaN or infinities disagree.

        None where nothing was measured.
        """
        if self.stats is None:
            return None
        if self.stats.nan or self.stats.inf:
            return math.inf
        return self.stats.rel_l2

    @property
    def ratio(self) -> Optional[float]:
        """Error ÷ noise; None where either is missing, or neither decided."""
        error = self.error
        if error is None or self.noise is None or self.granted is not None:
            return None
        if self.noise.value == 0.0:
            return 0.0 if error == 0.0 else math.inf
        return error / self.noise.value


def wrong_of(pairs: Iterable[Pair]) -> List[Pair]:
    """The pairs that are judged, and differ."""
    return [pair for pair in pairs if pair.wrong]


def overall(verdicts: List[str]) -> str:
    """The verdict of many: error, then diverged, then underpowered, then aligned.

    Not tested only where nothing was.
    """
    for verdict in (ERROR, DIVERGED, UNDERPOWERED, ALIGNED):
        if verdict in verdicts:
            return verdict
    return NOT_TESTED
