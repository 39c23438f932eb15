"""What a stage and a check came to."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Callable, ClassVar, Dict, List, Optional, Tuple

from paralign.errors import plain_text
from paralign.model.as_json import divergence_to_dict, pair_to_dict, plain
from paralign.model.judged_pairs import ALIGNED, DIVERGED, ERROR, NOT_TESTED, UNDERPOWERED, Pair, overall, wrong_of
from paralign.model.records import SCHEMA

if TYPE_CHECKING:
    from paralign.model.divergences import Divergence, Finding
    from paralign.model.timings import CheckTime


@dataclass
class Coverage:
    """How much of something was compared.

    ``total`` is None where there is no end to it, or nobody knows it.
    """

    what: str
    compared: int
    total: Optional[int] = None

    def __str__(self) -> str:
        of = "" if self.total in (None, self.compared) else f" of {self.total:,}"
        return f"{self.compared:,}{of} {self.what}"


@dataclass
class Listing:
    """A table that a stage shows below its line: texts, row by row."""

    title: str
    columns: List[str]
    rows: List[List[str]]


@dataclass
class StageResult:
    """What one stage came to.

    ``divergences`` are all guilty points that were found, ``divergence`` the first; several may have one fault. ``follows`` names earlier
    stages that diverged, whose fault this one may only have inherited.
    ``coverage`` says, in numbers, how much was looked at of what is only looked at in part. ``tables`` are shown as they are.
    ``doubts`` say that all rests on less than it seems: in the shortest form, too, which leaves out most ``warnings``.
    ``excused`` are those of ``notes`` that name a difference which does not count: they are shown where other notes are left out.
    ``lacks`` names the functions without which nothing could be tested.
    """

    name: str
    verdict: str = NOT_TESTED
    method: str = ""
    pairs: List[Pair] = field(default_factory=list)
    divergence: Optional[Divergence] = None
    divergences: List[Divergence] = field(default_factory=list)
    findings: List[Finding] = field(default_factory=list)
    notes: List[str] = field(default_factory=list)
    warnings: List[str] = field(default_factory=list)
    failure: Optional[Dict[str, Any]] = None
    seconds: Dict[str, float] = field(default_factory=dict)
    peak_bytes: Dict[str, float] = field(default_factory=dict)
    coverage: List[Coverage] = field(default_factory=list)
    follows: List[str] = field(default_factory=list)
    tables: List[Listing] = field(default_factory=list)
    doubts: List[str] = field(default_factory=list)
    lacks: List[str] = field(default_factory=list)
    excused: List[str] = field(default_factory=list)

    def doubt(self, warning: str) -> None:
        """Warn, first of all, of what the verdict rests on."""
        self.warnings.insert(0, warning)
        self.doubts.append(warning)

    def excuse(self, note: str) -> None:
        """Note a difference that does not count."""
        self.notes.append(note)
        self.excused.append(note)

    def list_first(self) -> "StageResult":
        """Put ``divergence`` at the head of ``divergences``, where a stage set it alone.

        Returns itself.
        """
        if self.divergence is not None:
            self.divergences = [self.divergence, *(d for d in self.divergences if d is not self.divergence)]
        return self

    @property
    def wrong(self) -> List[Pair]:
        """The pairs that are judged, and differ."""
        return wrong_of(self.pairs)

    @property
    def judged(self) -> List[Pair]:
        """The pairs that the verdict rests on."""
        return [pair for pair in self.pairs if pair.judged]

    @property
    def not_aligned(self) -> List[Pair]:
        """The judged pairs that differ, or show too little."""
        return [pair for pair in self.judged if pair.verdict not in (ALIGNED, NOT_TESTED)]

    @property
    def verdict_of_pairs(self) -> str:
        """What the judged pairs come to together."""
        return overall([pair.verdict for pair in self.judged])

    @property
    def worst(self) -> Optional[Pair]:
        """The judged pair with the greatest error ÷ noise.

        A pair without one counts as infinite, or as least where it is aligned.
        """
        return max(self.judged, key=_badness, default=None)


#: verdict -> how bad it is
_RANKS = {ALIGNED: 0, NOT_TESTED: 0, UNDERPOWERED: 1, DIVERGED: 2, ERROR: 3}


def _badness(pair: Pair) -> Tuple[int, float]:
    """By verdict, then by how far the two sides are apart."""
    rank = _RANKS[pair.verdict]
    if pair.granted is not None and pair.stats is not None and pair.error != math.inf:
        return rank, pair.stats.max_abs
    if pair.ratio is not None:
        return rank, pair.ratio
    return rank, -1.0 if rank == 0 else math.inf


def _stage_to_dict(stage: StageResult) -> Dict[str, Any]:
    return {
        "name": stage.name,
        "verdict": stage.verdict,
        "follows": stage.follows,
        "method": stage.method,
        "coverage": [asdict(c) for c in stage.coverage],
        **_worst_to_dict(stage.worst),
        "pairs": [pair_to_dict(p) for p in stage.pairs],
        "divergence": divergence_to_dict(stage.divergence) if stage.divergence else None,
        "divergences": [divergence_to_dict(d) for d in stage.divergences],
        "findings": [asdict(f) for f in stage.findings],
        "notes": stage.notes,
        "warnings": stage.warnings,
        "failure": stage.failure,
        "seconds": stage.seconds,
        "peak_bytes": stage.peak_bytes,
        "tables": [asdict(t) for t in stage.tables],
    }


def _worst_to_dict(worst: Optional[Pair]) -> Dict[str, Any]:
    """The figures of a stage's worst pair; None for each where it has no pair."""
    if worst is None:
        return dict.fromkeys(("error", "noise", "ratio", "worst"))
    noise = worst.noise.value if worst.noise else None
    return {"error": worst.error, "noise": noise, "ratio": worst.ratio, "worst": worst.key}


@dataclass(repr=False)
class CheckResult:
    """What a check came to; ``result["forward"]`` is the result of one stage.

    ``command`` makes it again, from the folder above the project's; '' where no command did. ``profile``: where the time went, None where
    nobody asked.
    """

    stages: List[StageResult] = field(default_factory=list)
    preflight: List[str] = field(default_factory=list)
    reference: Dict[str, Any] = field(default_factory=dict)
    candidate: Dict[str, Any] = field(default_factory=dict)
    command: str = ""
    profile: Optional[CheckTime] = None

    #: what makes HTML of a result, given by what stands above this module; None before
    renderer: "ClassVar[Optional[Callable[[CheckResult], str]]]" = None

    def __repr__(self) -> str:
        if not self.stages:
            return f"CheckResult({self.verdict})"
        return f"CheckResult({self.verdict}: {', '.join(f'{stage.name} {stage.verdict}' for stage in self.stages)})"

    def _repr_html_(self) -> Optional[str]:
        """What a notebook shows."""
        return None if CheckResult.renderer is None else CheckResult.renderer(self)

    @property
    def verdict(self) -> str:
        """The worst verdict; stages that were not tested do not count unless there is no other."""
        return overall([s.verdict for s in self.stages])

    def to_dict(self) -> Dict[str, Any]:
        """The report as ``report.json`` holds it (schema: docs/report.md)."""
        report: Dict[str, Any] = {
            "schema": SCHEMA,
            "verdict": self.verdict,
            "command": self.command,
            "preflight": self.preflight,
            "reference": self.reference,
            "candidate": self.candidate,
            "stages": [_stage_to_dict(stage) for stage in self.stages],
        }
        if self.profile is not None:
            report["profile"] = asdict(self.profile)
        as_json: Any = plain(report)
        return dict(as_json)

    def to_json(self) -> str:
        """:meth:`to_dict` as text; control characters are escaped."""
        return plain_text(json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False))

    def __getitem__(self, stage: str) -> StageResult:
        for result in self.stages:
            if result.name == stage:
                return result
        raise KeyError(stage)
