"""Two logs of trainings held against each other.

Where they part, and how far apart they end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from paralign.errors import UsageError
from paralign.model import ALIGNED, DIVERGED, UNDERPOWERED
from paralign.trainlog.lines import EVAL, TRAIN

if TYPE_CHECKING:
    from paralign.training.logs import Log


@dataclass
class Gap:
    """How far one figure of two trainings is apart.

    Args:
        name: of the figure; ``kind`` says whether of training or evaluation.
        compared: places (epoch, batch) that both logs have; ``alone``: those that only one has.
        first: the first place where they differ by more than is allowed, None without one.
        at_first: both values there.
        worst: the greatest absolute difference, and its place.
        last: both values at the last place that both have.
    """

    name: str
    kind: str
    compared: int
    alone: int
    first: tuple[int, int] | None = None
    at_first: tuple[float, float] | None = None
    worst: tuple[float, tuple[int, int]] = (0.0, (0, 0))
    last: tuple[float, float] | None = None

    @property
    def final(self) -> float:
        """Candidate minus reference at the last place that both have; NaN without one."""
        return self.last[1] - self.last[0] if self.last is not None else math.nan


@dataclass
class LogComparison:
    """What comparing two logs came to: a gap a figure, the verdict and why."""

    verdict: str
    gaps: list[Gap] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def compare_logs(
    reference: Log,
    candidate: Log,
    *,
    names: list[str] | None = None,
    atol: float | None = None,
    rtol: float = 0.0,
    margin: float | None = None,
) -> LogComparison:
    """Compare two logs figure by figure at the places that both have.

    Args:
        reference: of the trusted training.
        candidate: of the port's.
        names: figures; None for all that both have.
        atol: difference that is allowed everywhere; with ``rtol`` times the reference's value.
        rtol: see ``atol``.
        margin: difference that is allowed between the last values, in the figure's own units.

    Returns:
        ``diverged`` where a limit is exceeded, ``aligned`` where limits were given and hold, ``underpowered`` without a limit: one
        run a side cannot tell a wrong port from another seed.

    Raises:
        UsageError: a name that not both logs have.
    """
    kinds = [kind for kind in (TRAIN, EVAL) if any(r.kind == kind for r in reference.rows) and any(r.kind == kind for r in candidate.rows)]
    both = [name for name in reference.names if name in candidate.names]
    missing = [name for name in names or [] if name not in both]
    if missing:
        raise UsageError(f"not both logs have {', '.join(missing)}", hint="both have: " + (", ".join(both) or "nothing in common"))
    result = LogComparison(UNDERPOWERED)
    for kind in kinds:
        for name in names or both:
            gap = _gap(name, kind, (reference.series(name, kind), candidate.series(name, kind)), atol, rtol)
            if gap.compared or gap.alone:
                result.gaps.append(gap)
    result.notes = _remarks(reference, candidate)
    _judge(result, limited=atol is not None, margin=margin)
    return result


def _gap(name: str, kind: str, both: tuple[dict[tuple[int, int], float], ...], atol: float | None, rtol: float) -> Gap:
    first, second = both
    common = sorted(set(first) & set(second))
    gap = Gap(name, kind, len(common), len(set(first) ^ set(second)))
    for place in common:
        one, other = first[place], second[place]
        differs = math.nan if math.isnan(one) or math.isnan(other) else abs(other - one)
        if one == other:  # equal infinities too
            differs = 0.0
        allowed = (atol or 0.0) + rtol * abs(one)
        if atol is not None and gap.first is None and not differs <= allowed:
            gap.first, gap.at_first = place, (one, other)
        if not differs <= gap.worst[0]:
            gap.worst = differs, place
        gap.last = one, other
    return gap


def _remarks(reference: Log, candidate: Log) -> list[str]:
    notes = []
    for side, log in (("reference", reference), ("candidate", candidate)):
        if log.damaged:
            lines = ", ".join(str(each.line) for each in log.damaged[:5])
            more = f" and {len(log.damaged) - 5} more" if len(log.damaged) > 5 else ""  # noqa: PLR2004 - a few suffice
            notes.append(f"{side}: {len(log.damaged)} damaged lines are not compared: {lines}{more}")
    sizes = [{row.samples for row in log.rows if row.samples} for log in (reference, candidate)]
    if all(sizes) and max(sizes[0]) != max(sizes[1]):
        notes.append(f"the batch sizes differ: {max(sizes[0]):g} in the reference, {max(sizes[1]):g} in the candidate")
    return notes


def _judge(result: LogComparison, *, limited: bool, margin: float | None) -> None:
    compared = [gap for gap in result.gaps if gap.compared]
    if not compared:
        result.notes.append("nothing was compared: the logs have no figure at the same epoch and batch")
        return
    beyond = [g for g in compared if margin is not None and not abs(g.final) <= margin]
    if any(g.first is not None for g in compared) or beyond:
        result.verdict = DIVERGED
        result.notes += [f"{g.name} ({g.kind.lower()}) ends {g.final:+.6g} apart, more than {margin:g}" for g in beyond]
    elif limited or margin is not None:
        result.verdict = ALIGNED
    else:
        result.notes.append(
            "one run a side cannot tell a wrong port from another seed: give --atol for equal trajectories, --margin for the end"
        )
    alone = sum(g.alone for g in result.gaps)
    if alone:
        result.notes.append(f"{alone} values stand at a place that only one log has and were not compared")
