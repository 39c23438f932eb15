"""Results on the terminal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from paralign.model import ALIGNED, DIVERGED, ERROR, NOT_TESTED, UNDERPOWERED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from paralign.model import CheckResult, Divergence, Finding, Pair, Point, StageResult

STYLE = {ALIGNED: "bold green", DIVERGED: "bold red", ERROR: "bold red", UNDERPOWERED: "bold yellow", NOT_TESTED: "dim"}

#: frames of the user's own code shown of a failure; all are in report.json and in the log
FRAMES = 6

#: pairs listed below a diverged stage
MOST = 5


def figure(value: float | None) -> str:
    """A number in three digits; a dash where there is none."""
    if value is None:
        return "-"
    return f"{value:.3g}" if value == 0 or 1e-3 <= abs(value) < 1e4 else f"{value:.1e}"  # noqa: PLR2004 - what reads well without an exponent


def render(result: CheckResult) -> RenderableType:
    """Preflight, one line a stage, what diverged and where, warnings and failures, the verdict."""
    parts: list[RenderableType] = [Text(line, style="dim") for line in result.preflight]
    parts.append(table(result))
    told: list[Any] = []
    for stage in result.stages:
        again = stage.failure is not None and stage.failure in told
        parts += [Text(f"{stage.name} {stage.verdict}: the same failure", "dim")] if again else details(stage)
        told.append(stage.failure)
    parts.append(Text.assemble("verdict: ", (result.verdict, STYLE[result.verdict])))
    return Group(*parts)


def table(result: CheckResult) -> Table:
    """One line a stage."""
    shown = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in ("stage", "verdict", "error", "noise", "error ÷ noise", "worst tensor", "judged by"):
        shown.add_column(name, justify="right" if name in ("error", "noise", "error ÷ noise") else "left", overflow="fold")
    for stage in result.stages:
        worst = stage.worst
        numbers = [
            figure(worst.error if worst else None),
            figure(worst.noise.value if worst and worst.noise else None),
            figure(worst.ratio if worst else None),
        ]
        names = Text(worst.key if worst else ""), Text(stage.method)
        shown.add_row(Text(stage.name), _verdict(stage), *numbers, *names)
    return shown


def _verdict(stage: StageResult) -> Text:
    """The verdict, with how much was looked at where that is not everything."""
    return Text.assemble((stage.verdict, STYLE[stage.verdict]), *(f", {part}" for part in stage.coverage))


def details(stage: StageResult) -> Iterator[RenderableType]:
    """What is to be said of one stage beyond its line."""
    lines: list[Text] = []
    if stage.failure:
        lines += _failure(stage.failure)
    if stage.divergence is not None:
        lines += _divergence(stage.divergence, located=all(p is not stage.divergence.pair for p in stage.pairs))
        for number, other in enumerate(stage.divergences[1:], 2):
            lines += _divergence(other, located=True, title=f"fault {number}, independent of those before it:")
    lines += [line for finding in stage.findings for line in _finding(finding)]
    if stage.verdict in (DIVERGED, UNDERPOWERED):
        wrong = [p for p in stage.pairs if p.judged and p.verdict not in (ALIGNED, NOT_TESTED)]
        lines += [_pair(p) for p in wrong[:MOST]]
        if len(wrong) > MOST:
            lines.append(Text(f"… and {len(wrong) - MOST} more in report.json", "dim"))
    lines += [Text.assemble(("warning: ", "yellow"), w) for w in stage.warnings]
    lines += [Text(f"note: {n}", "dim") for n in stage.notes]
    if lines:
        yield Text.assemble((stage.name, "bold"), " ", (stage.verdict, STYLE[stage.verdict]))
        yield Padding(Group(*lines), (0, 0, 0, 2), expand=False)


def _failure(failure: dict[str, Any]) -> list[Text]:
    lines = [Text.assemble((f"the {failure['side']} failed: ", "red"), f"{failure['type']}: {failure['message']}")]
    lines += [Text(f"  {frame}", "dim") for frame in failure["frames"][-FRAMES:]]
    if failure.get("log"):
        lines.append(Text(f"log: {failure['log']}", overflow="fold"))
    return lines


def _divergence(divergence: Divergence, *, located: bool, title: str = "where it starts:") -> list[Text]:
    """Where it starts; ``located`` says that it was looked for beyond the stage's own pairs."""
    lines = [Text(title, "bold")]
    if divergence.pair is not None and not located:
        lines.append(Text(f"  at: {divergence.pair.key}"))
    if divergence.last_agreeing:
        lines.append(Text(f"  last that agrees: {divergence.last_agreeing}"))
    lines += [Text(f"    before that: {match}", "dim") for match in reversed(divergence.chain[:-1])]
    for side, point in (("reference", divergence.reference), ("candidate", divergence.candidate)):
        lines.append(Text(f"  {side}: {_point(point)}"))
        if point is not None and point.code:
            lines.append(Text(f"             {point.code}", "cyan"))
    lines += [Text(f"  {difference}") for difference in _arguments(divergence)]
    if located:
        notes = divergence.notes or (divergence.pair.notes if divergence.pair is not None else [])
        lines += [Text(f"  {note}", "yellow") for note in notes]
    if divergence.what:
        lines.append(Text(f"  {_measured(divergence)}"))
    return lines


def _measured(divergence: Divergence) -> str:
    """The errors at a guilty point, in words."""
    noise = divergence.noise or math.inf
    said = f"error {figure(divergence.error)}" + (
        f", {figure((divergence.error or 0.0) / noise)} times its noise" if divergence.error else ""
    )
    said += f"; of its inputs {figure(divergence.error_before)}"
    if divergence.confirmed and divergence.error_after is not None:
        said += f"; of the outputs with the reference's value put here {figure(divergence.error_after)}"
    return said + ("" if divergence.confirmed else " (not confirmed)")


def _arguments(divergence: Divergence) -> list[str]:
    """The arguments of both operations, where there are any."""
    given = [
        (side, p.arguments) for side, p in (("reference", divergence.reference), ("candidate", divergence.candidate)) if p and p.arguments
    ]
    return [f"{side}'s arguments: " + ", ".join(f"{name}={value}" for name, value in found.items()) for side, found in given]


def _finding(finding: Finding) -> list[Text]:
    """A cause with the errors before and after it was tried, and what to do about it."""
    tried = (
        "" if finding.error_after is None else f" (error {figure(finding.error_before)}, with this changed {figure(finding.error_after)})"
    )
    return [
        Text.assemble(("proven cause: " if finding.proven else "suspected cause: ", "bold"), f"{finding.cause}{tried}"),
        Text(f"  fix: {finding.fix}"),
    ]


def _point(point: Point | None) -> str:
    if point is None:
        return "no counterpart found"
    return "  ".join(p for p in (point.name or "the model itself", point.op, point.source or "") if p)


def _pair(pair: Pair) -> Text:
    text = Text.assemble(
        (f"{pair.key}: ", "bold"),
        f"error {figure(pair.error)}, noise {figure(pair.noise.value if pair.noise else None)}, error ÷ noise {figure(pair.ratio)}",
    )
    if pair.stats is not None and pair.stats.mismatched:
        text.append(
            f"; {pair.stats.mismatched} of {pair.stats.count} differ, most by {figure(pair.stats.max_abs)}"
            + (f" at {list(pair.stats.max_abs_at)}" if pair.stats.max_abs_at is not None else "")
        )
    for note in pair.notes:
        text.append(f"\n  {note}", "yellow")
    return text


def pairs(result: CheckResult) -> Table:
    """Every pair on a line: for offline comparisons, which have few."""
    shown = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in ("tensor", "verdict", "mean |a-b|", "max |a-b|", "relative L2", "differ", "said"):
        shown.add_column(name, justify="left" if name in ("tensor", "verdict", "said") else "right", overflow="fold")
    for stage in result.stages:
        for pair in stage.pairs:
            stats = pair.stats
            numbers = (
                ["-"] * 4
                if stats is None
                else [figure(stats.mean_abs), figure(stats.max_abs), figure(pair.error), f"{stats.mismatched}/{stats.count}"]
            )
            shown.add_row(Text(pair.key), Text(pair.verdict, STYLE[pair.verdict]), *numbers, Text("; ".join(pair.notes)))
    return shown
