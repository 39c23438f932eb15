"""A report as Markdown: the summary that a pull request shows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from paralign.model import ALIGNED, DIVERGED, ERROR, NOT_TESTED, UNDERPOWERED
from paralign.report.language import current, say
from paralign.report.text import figure
from paralign.report.told import where
from paralign.report.words import WORDS

if TYPE_CHECKING:
    from paralign.report.told import Fault, Place, StageTold, Told

MARKS = {ALIGNED: "✅", DIVERGED: "❌", ERROR: "💥", UNDERPOWERED: "⚠️", NOT_TESTED: "⏭️"}

#: faults of a stage that are shown; all are in report.json
MOST = 3

#: further lines named below a fault
FURTHER = 6

#: what Markdown or HTML would take for its own
_SPECIAL = re.compile(r"([\\`*_\[\]<>|~&#$])")


def markdown(report: Told) -> str:
    """Verdict, a row a stage, and what is known of each stage that is not aligned.

    The sentence, the lines of code and the cause.
    """
    parts = [f"## {MARKS[report.verdict]} paralign: {say(report.verdict)}", ""]
    if report.headline:
        parts += [f"**{escaped(report.headline)}**", ""]
    parts += [f"| {' | '.join(map(_word, ('stage', 'verdict', 'ratio', 'looked')))} |", "|---|---|---:|---|"]
    parts += [
        f"| {escaped(s.name)} | {MARKS[s.verdict]} {say(s.verdict)} | {figure(s.ratio)} | {escaped(', '.join(s.coverage)) or '-'} |"
        for s in report.stages
    ]
    for stage in report.stages:
        parts += _details(stage)
    return "\n".join(parts) + "\n"


def _details(stage: StageTold) -> list[str]:
    if stage.verdict == ALIGNED and not stage.warnings:
        return []
    found = ["", f"### {escaped(stage.name)}: {say(stage.verdict)}", "", escaped(stage.sentence)]
    for fault in stage.starting[:MOST]:
        found += _fault(fault)
    if len(stage.starting) > MOST:
        found += ["", say("… and {count} more in report.json", count=len(stage.starting) - MOST)]
    for cause in stage.causes:
        head = _word("proven" if cause.proven else "suspected").capitalize()
        found += ["", f"{head}: {escaped(cause.cause)}. {_word('fix').capitalize()}: {escaped(cause.fix)}"]
        found += ["", *_diff(cause.patch)] if cause.patch else []
        found += ["", escaped(cause.tried)] if cause.tried else []
    found += [f"- ⚠️ {escaped(text)}" for text in ("", *stage.further_warnings) if text]
    return found


def _fault(fault: Fault) -> list[str]:
    places = [place for place in (fault.reference, fault.candidate) if place is not None]
    shown = [f"- {_word(place.side)}: {escaped(where(place))} {code(_done(place))}".rstrip() for place in places]
    further = ", ".join(where(place) for place in fault.further[:FURTHER])
    evidence = [f"- {escaped(fault.evidence)}"] if fault.evidence else []
    return ["", *shown, *evidence, *([f"- {_word('further')}: {escaped(further)}"] if further else [])]


def _word(key: str) -> str:
    """A word of the page, in the language that is spoken."""
    return WORDS[key][current() == "zh"]


def _done(place: Place) -> str:
    """What stands at a place: its code, else its operation, unless that is all its name."""
    return place.code or ("" if where(place) == place.operation else place.operation)


def _diff(patch: tuple[str, ...]) -> list[str]:
    """The changed lines of a patch as a block, whatever backquotes they hold."""
    fence = "`" * max(3, 1 + max(len(run) for run in re.findall("`*", "".join(patch))))
    return [f"{fence}diff", *patch, fence]


def escaped(text: str) -> str:
    r"""A text that Markdown shows as it is.

    >>> print(escaped("a|b <img>"))
    a\|b \<img\>
    """
    return _SPECIAL.sub(r"\\\1", text)


def code(text: str) -> str:
    """A text as code, whatever backquotes it holds.

    >>> code("x = `y`")
    '`` x = `y` ``'
    """
    if not text:
        return ""
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    return f"`{text}`" if fence == "`" else f"{fence} {text} {fence}"
