"""Results on the terminal."""

from __future__ import annotations

import math
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from paralign import errors
from paralign.errors import one_line
from paralign.model import ALIGNED, DIVERGED, ERROR, NOT_TESTED, UNDERPOWERED
from paralign.model.argument_differences import are_comparable, spread_out
from paralign.report import language
from paralign.report.findings import patched, words
from paralign.report.language import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from paralign.model import CheckResult, Coverage, Divergence, Finding, Listing, Pair, Point, StageResult, Stats

STYLE = {ALIGNED: "bold green", DIVERGED: "bold red", ERROR: "bold red", UNDERPOWERED: "bold yellow", NOT_TESTED: "dim"}

#: frames of the user's own code shown of a failure; all are in report.json and in the log
FRAMES = 6

#: pairs listed below a diverged stage
MOST = 5

#: notes and tables of aligned stages that are shown without being asked for: half of the twelve lines of a check that diverges
REMARKS = 6

#: characters of a message, a note or a warning that are shown: about six lines of a terminal; report.json has the whole
LONGEST = 600

#: a middle that is not this many times as long as the words about it is not left out: leaving it out would save less than a line
SLACK = 2


def figure(value: float | None) -> str:
    """A number in three digits; a dash where there is none."""
    if value is None:
        return "-"
    return f"{value:.3g}" if value == 0 or 1e-3 <= abs(value) < 1e4 else f"{value:.1e}"  # noqa: PLR2004 - what reads well without an exponent


def shortened(text: str, longest: int = LONGEST) -> str:
    """A text of others with its middle left out where it is long.

    How it begins and how it ends tell most. What is hardly longer than what would be said of its middle stays whole.
    """
    left_out = len(text) - longest
    if left_out <= 0:
        return text
    told = say("({count} characters left out: report.json has them)", count=f"{left_out:,}")
    if left_out <= SLACK * len(told):
        return text
    return f"{text[: longest * 3 // 4]} … {told} … {text[-(longest // 4) :]}"


def relative(text: Text, root: Path | None) -> Text:
    """A text with paths as they are from a folder: below it, or below the one that it lies in."""
    for folder, begin in _seen_from(root):
        prefix = re.compile(r"(?<![\w./\\-])" + re.escape(f"{folder}{os.sep}"))
        while (found := prefix.search(text.plain)) is not None:
            text = text[: found.start()] + Text(begin) + text[found.end() :]
    return text


def from_folder(path: str, root: Path | None) -> str:
    """A file's path as :func:`relative` shows it.

    >>> from_folder("/data/paper/model.py", Path("/data/port")), from_folder("/usr/model.py", Path("/data/port"))
    ('../paper/model.py', '/usr/model.py')
    """
    for folder, begin in _seen_from(root):
        if path.startswith(f"{folder}{os.sep}"):
            return begin + path[len(f"{folder}{os.sep}") :]
    return path


def _seen_from(root: Path | None) -> Iterator[tuple[Path, str]]:
    """Folders whose files are shown from a project's, and how such paths begin.

    The reference mostly lies beside the project; a whole path would leave no room on a line for its code.
    """
    if root is not None and root.name:
        yield root, ""
        if root.parent.name:
            yield root.parent, f"..{os.sep}"


def place(path: Path) -> str:
    """A path as it is from this folder, where it lies below; else whole."""
    whole, here = path.resolve(), Path.cwd()
    return str(whole.relative_to(here)) if whole.is_relative_to(here) else str(whole)


def render(result: CheckResult, root: Path | None = None, *, folded: bool = False) -> RenderableType:
    """Preflight, a line a stage, what diverged and where, warnings, failures, verdict.

    Args:
        result: of a check, or a comparison.
        root: the project's folder, from which paths are shown; None shows them whole.
        folded: where aligned stages have many notes and tables, leave them out and count them.
    """
    folded = folded and _is_foldable(result)
    parts: list[RenderableType] = [Text(say(line), style="dim") for line in result.preflight]
    parts.append(table(result))
    told: list[Any] = []
    weights = False
    behind = {name: stage.name for stage in result.stages for finding in stage.findings for name in finding.gone}
    for stage in result.stages:
        if stage.name in behind:
            first = language.stage(behind[stage.name])
            told_gone = say(
                "{stage} {verdict}: gone with the patch of {first}",
                stage=language.stage(stage.name),
                verdict=say(stage.verdict),
                first=first,
            )
            parts.append(Text(told_gone, "dim"))
            continue
        if stage.failure is not None and stage.failure in told:
            same = say("{stage} {verdict}: the same failure", stage=language.stage(stage.name), verdict=say(stage.verdict))
            parts.append(Text(same, "dim"))
        else:
            parts += details(_without_remarks(stage) if folded else stage, root, weights_told=weights)
        told.append(stage.failure)
        weights = weights or "weights" in stage.follows
    left_out = _folded(result) if folded else ""
    if left_out:
        parts.append(Text(left_out, "dim"))
    return Group(*parts, conclusion(result))


def _without_remarks(stage: StageResult) -> StageResult:
    """An aligned stage without tables, and with notes of excused differences alone."""
    return replace(stage, notes=[*stage.excused], tables=[]) if stage.verdict == ALIGNED else stage


def _is_foldable(result: CheckResult) -> bool:
    """Whether aligned stages have more remarks than are read at once."""
    aligned = [stage for stage in result.stages if stage.verdict == ALIGNED]
    return sum(len(stage.notes) + len(stage.tables) for stage in aligned) > REMARKS


def _folded(result: CheckResult) -> str:
    """How much the aligned stages say behind ``-v``; '' where that is nothing."""
    aligned = [stage for stage in result.stages if stage.verdict == ALIGNED]
    notes = sum(len(stage.notes) - len(stage.excused) for stage in aligned)
    told = counted({"notes": notes, "tables": sum(len(stage.tables) for stage in aligned)})
    return say("-v shows {what} of aligned stages", what=told) if told else ""


def counted(counts: dict[str, int]) -> str:
    """How many there are of each kind, in words, without those that are none."""
    return ", ".join(language.of_one(f"{count} {say(what)}") for what, count in counts.items() if count)


def conclusion(result: CheckResult) -> Text:
    """The verdict of everything, on a line."""
    return Text.assemble(say("verdict: "), (say(result.verdict), STYLE[result.verdict]))


def table(result: CheckResult) -> Table:
    """One line a stage."""
    shown = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    figures = (say("error", "column"), say("noise"), say("error ÷ noise"))
    for name in (say("stage"), say("verdict"), *figures, say("worst tensor"), say("judged by")):
        shown.add_column(name, justify="right" if name in figures else "left", overflow="fold")
    for stage in result.stages:
        worst = stage.worst
        key = ""
        error = noise = ratio = None
        if worst is not None:
            key, error, ratio = one_line(worst.key), worst.error, worst.ratio
            noise = worst.noise.value if worst.noise else None
        head = Text(language.stage(stage.name)), _verdict(stage)
        shown.add_row(*head, figure(error), figure(noise), figure(ratio), Text(key), Text(say(stage.method)))
    return shown


def _verdict(stage: StageResult) -> Text:
    """The verdict, with how much was looked at where that is not everything."""
    return Text.assemble((say(stage.verdict), STYLE[stage.verdict]), *(f", {looked_at(part)}" for part in stage.coverage))


def looked_at(part: Coverage) -> str:
    """How much was looked at, of how much.

    >>> from paralign.model import Coverage
    >>> looked_at(Coverage("steps", 1000, 2000))
    '1,000 of 2,000 steps'
    """
    if part.total in (None, part.compared):
        return language.of_one(f"{part.compared:,} {_counted(part.what)}")
    return say("{compared} of {total} {what}", compared=f"{part.compared:,}", total=f"{part.total:,}", what=_counted(part.what))


def _counted(what: str) -> str:
    """What was counted; the name of a split before it stays as it is."""
    known = say(what)
    name, blank, rest = what.partition(" ")
    if known != what or not blank:
        return known
    return say("{split} {what}", split=name, what=say(rest))


def message(failure: dict[str, Any]) -> str:
    """What a failed side said; paralign's own errors in the language that is spoken."""
    own = getattr(errors, failure["type"], None)
    return say(failure["message"]) if isinstance(own, type) else str(failure["message"])


def details(stage: StageResult, root: Path | None = None, *, weights_told: bool = False) -> Iterator[RenderableType]:
    """What is to be said of one stage beyond its line.

    That the weights are wrong only where that was not told before.
    """
    mended = [Text(one_line(line)) for f in stage.findings if f.patch for line in patched(language.stage(stage.name), f)]
    if mended:  # the cause is known, and what else there is to say stands in report.json
        yield Padding(Group(*(relative(line, root) for line in mended)), (0, 0, 0, 0), expand=False)
        return
    lines = _follows(stage, weights_told=weights_told)
    if stage.failure:
        lines += _failure(stage.failure)
    if stage.divergence is not None:
        lines += _divergence(stage.divergence, located=all(p is not stage.divergence.pair for p in stage.pairs))
        for number, other in enumerate(stage.divergences[1:], 2):
            lines += _divergence(other, located=True, title=say("point {number}, perhaps of the same fault:", number=number))
    lines += [line for finding in stage.findings for line in _finding(finding)]
    if stage.verdict in (DIVERGED, UNDERPOWERED):
        wrong = stage.not_aligned
        lines += [pair_line(p) for p in wrong[:MOST]]
        if len(wrong) > MOST:
            lines.append(Text(say("… and {count} more in report.json", count=len(wrong) - MOST), "dim"))
    lines += [Text.assemble((say("warning: "), "yellow"), shortened(say(w))) for w in stage.warnings]
    lines += [Text(say("note: {note}", note=shortened(say(n))), "dim") for n in stage.notes]
    if lines or stage.tables:
        yield Text.assemble((language.stage(stage.name), "bold"), " ", (say(stage.verdict), STYLE[stage.verdict]))
        shown: list[RenderableType] = [*map(_listing, stage.tables), *(relative(line, root) for line in lines)]
        yield Padding(Group(*shown), (0, 0, 0, 2), expand=False)


def _listing(listing: Listing) -> Group:
    """A table of a stage, as it is, below its title, which may be wider."""
    shown = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in listing.columns:
        shown.add_column(say(name), overflow="fold")
    for row in listing.rows:
        shown.add_row(*(Text(one_line(cell)) for cell in row))
    return Group(Text(one_line(say(listing.title)), "italic"), shown)


def _follows(stage: StageResult, *, weights_told: bool) -> list[Text]:
    """Which earlier stages to look at first."""
    lines = []
    if "weights" in stage.follows and not weights_told:
        lines.append(
            say("the weights are wrong: what differs here may only follow from that. Put them right first (`paralign check weights`)")
        )
    others = [name for name in stage.follows if name != "weights"]
    if others:
        lines.append(say("may only follow from {stages}: look there first", stages=say(" and ").join(map(language.stage, others))))
    return [Text(line, "bold yellow") for line in lines]


def _failure(failure: dict[str, Any]) -> list[Text]:
    failed = say("the {side} failed: ", side=say(failure["side"]))
    lines = [Text.assemble((failed, "red"), f"{failure['type']}: {shortened(message(failure))}")]
    lines += [Text(f"  {frame}", "dim") for frame in failure["frames"][-FRAMES:]]
    if failure.get("remedy"):
        lines.append(Text(say("fix: {fix}", fix=say(failure["remedy"]["fix"]))))
    if failure.get("log"):
        lines.append(Text(f"{say('log: ')}{failure['log']}", overflow="fold"))
    return lines


def _divergence(divergence: Divergence, *, located: bool, title: str | None = None) -> list[Text]:
    """Where it starts; ``located`` says that it was looked for beyond the stage's own pairs."""
    lines = [Text(title or say("where it starts:"), "bold")]
    if divergence.pair is not None and not located:
        lines.append(Text(say("  at: {key}", key=one_line(divergence.pair.key))))
    if divergence.last_agreeing:
        lines.append(Text(say("  last that agrees: {key}", key=divergence.last_agreeing)))
    lines += [Text(say("    before that: {key}", key=match), "dim") for match in reversed(divergence.chain[:-1])]
    for side, point in (("reference", divergence.reference), ("candidate", divergence.candidate)):
        lines.append(Text(say("  {side}: {point}", side=say(side), point=_point(point))))
        if point is not None and point.code:
            lines.append(Text(f"             {point.code}", "cyan"))
    lines += [Text(f"  {difference}") for difference in _arguments(divergence)]
    if located:
        notes = divergence.notes or (divergence.pair.notes if divergence.pair is not None else [])
        lines += [Text(f"  {shortened(say(note))}", "yellow") for note in notes]
    if divergence.what and divergence.error is not None:
        lines.append(Text(f"  {measured(divergence)}"))
    return lines


def measured(divergence: Divergence) -> str:
    """The errors at a guilty point, in words."""
    ratio = (divergence.error or 0.0) / (divergence.noise or math.inf)
    said = say("error {error}", error=figure(divergence.error))
    if ratio > 1.0:  # elements in another order, say, are guilty without an error in what they are
        said += say(", {ratio} times its noise", ratio=figure(ratio))
    said += say("; of its inputs {error}", error=figure(divergence.error_before))
    if not divergence.confirmed:
        return said + say(" (not confirmed)")
    if divergence.error_after is not None:
        said += say("; of the outputs with the reference's value put here {error}", error=figure(divergence.error_after))
    return said


def _arguments(divergence: Divergence) -> list[str]:
    """The arguments of both operations that the other has not, or not so.

    All where there is only one operation.
    """
    given: dict[str, dict[str, Any]] = {}
    for side, point in (("reference", divergence.reference), ("candidate", divergence.candidate)):
        given[side] = {} if point is None else point.arguments
    same: set[str] = set()
    if divergence.reference is not None and divergence.candidate is not None:
        other = given["candidate"]
        if not are_comparable(divergence.what, given["reference"], other):
            return []
        same = {name for name, value in given["reference"].items() if name in other and _alike(value, other[name])}
    lines = []
    for side, arguments in given.items():
        text = ", ".join(f"{name}={value}" for name, value in arguments.items() if name not in same)
        if text:
            lines.append(say("{side}'s arguments: ", side=say(side)) + text)
    return lines


def _alike(one: Any, other: Any) -> bool:
    """Whether two arguments of one name mean the same."""
    first, second = spread_out(one, other)
    return first == second


def _finding(finding: Finding) -> list[Text]:
    """A cause with the errors before and after it was tried, and what to do about it."""
    tried = (
        ""
        if finding.error_after is None
        else say(" (error {before}, with this changed {after})", before=figure(finding.error_before), after=figure(finding.error_after))
    )
    cause, fix = words(finding)
    head = say("proven cause: ") if finding.proven else say("suspected cause: ")
    return [Text.assemble((head, "bold"), f"{cause}{tried}"), Text(say("  fix: {fix}", fix=fix))]


def _point(point: Point | None) -> str:
    if point is None:
        return say("no counterpart found")
    return one_line("  ".join(filter(None, (point.name or say("the model itself"), point.op, point.source))))


def pair_line(pair: Pair) -> Text:
    """A pair with its figures, and its notes below."""
    text = Text.assemble(
        (f"{one_line(pair.key)}: ", "bold"),
        _figures(pair),
    )
    if pair.stats is not None and pair.stats.mismatched:
        text.append(_mismatch(pair.stats))
    for note in pair.notes:
        text.append(f"\n  {shortened(say(note))}", "yellow")
    return text


def _figures(pair: Pair) -> str:
    """Error, noise and their ratio; the error alone where no noise was measured."""
    if pair.noise is None and pair.ratio is None:
        return say("error {error}", error=figure(pair.error))
    noise = figure(pair.noise.value if pair.noise else None)
    return say("error {error}, noise {noise}, error ÷ noise {ratio}", error=figure(pair.error), noise=noise, ratio=figure(pair.ratio))


def _mismatch(stats: Stats) -> str:
    """How many elements differ, and most where; a single number has no place."""
    most = figure(stats.max_abs)
    if stats.count == 1:
        return say("; it differs by {most}", most=most)
    told = say("; {wrong} of {count} differ, most by {most}", wrong=stats.mismatched, count=stats.count, most=most)
    return told if stats.max_abs_at is None else told + say(" at {place}", place=list(stats.max_abs_at))


def pairs(result: CheckResult) -> Table:
    """Every pair on a line: for offline comparisons, which have few."""
    shown = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in (say("tensor"), say("verdict")):
        shown.add_column(name, overflow="fold")
    for name in (say("mean |a-b|"), say("max |a-b|"), say("relative L2"), say("differ")):
        shown.add_column(name, justify="right", overflow="fold")
    shown.add_column(say("said"), overflow="fold")
    for stage in result.stages:
        for pair in stage.pairs:
            stats = pair.stats
            numbers = (
                ["-"] * 4
                if stats is None
                else [figure(stats.mean_abs), figure(stats.max_abs), figure(pair.error), f"{stats.mismatched}/{stats.count}"]
            )
            shown.add_row(
                Text(one_line(pair.key)), Text(say(pair.verdict), STYLE[pair.verdict]), *numbers, Text("; ".join(map(say, pair.notes)))
            )
    return shown
