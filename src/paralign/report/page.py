"""A report as one HTML page for reviewers, which opens without a network.

The data of long tables stand in the page as compressed JSON, and rows are made when they are scrolled to: 10,000 values stay
responsive. Nothing that a report says is ever markup: jinja2 escapes texts, the page's own script sets ``textContent`` alone.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from paralign.capture.bounds import open_regular
from paralign.errors import UsageError, one_line, shortened
from paralign.model import ALIGNED, DIVERGED, ERROR, NOT_TESTED, UNDERPOWERED, are_comparable, argument_differences
from paralign.registry import BY_NAME
from paralign.report import figures as drawn
from paralign.report.artifacts import replace
from paralign.report.language import current, of_one, say, speaking
from paralign.report.text import figure
from paralign.report.told import told, where
from paralign.report.words import WORDS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from jinja2 import Template

    from paralign.capture import Capture
    from paralign.model import CheckResult
    from paralign.report.told import Fault, PairRow, Place, StageTold, Told

#: the page beside report.json
PAGE = "report.html"

#: lines of code shown before and after a guilty one
AROUND = 5

#: bytes of a source file that is read for them
LONGEST_SOURCE = 1 << 20

#: further lines shown below the first wrong one
FURTHER = 6

#: lines that are shown of those that a failure passed: where it was raised, and what called that
PASSED = 2

#: what stands before the name of a stage in the row of all stages: a colour alone is not seen by all
MARKS = {ALIGNED: "✓", DIVERGED: "✗", ERROR: "!", UNDERPOWERED: "~", NOT_TESTED: "-"}

#: characters of a line that are shown
WIDTH = 200

#: bytes from which data are compressed; below, a browser that cannot unpack shows them too
PLAIN = 1 << 15

#: different notes of a table that are translated: about a second
TRANSLATED = 1000


@dataclass(frozen=True)
class CodeLine:
    """A line of code with its number; ``guilty`` marks the one to look at."""

    number: int
    text: str
    guilty: bool


@dataclass(frozen=True)
class Pane:
    """One side of a fault: where, and the code around it, empty where the file cannot be read."""

    place: Place
    where: str
    code: tuple[CodeLine, ...]


def write(folder: Path, result: CheckResult, project: Path, captures: dict[str, tuple[Capture, Capture]]) -> None:
    """Write the page of a check of a project beside its ``report.json``, and what it draws.

    Raises:
        CaptureFormatError: a capture that it draws from is damaged.
        WriteFailed: it cannot be written.
    """
    known, root = result.to_dict(), project.resolve()
    figures = drawn.of(result, captures, folder, root)
    drawn.write(folder, figures)
    both = Both(told(known, root=root), told(known, root=root, language="zh"))
    replace(folder / PAGE, html(both, title=root.name, command=result.command, language=current(), figures=figures))


@dataclass(frozen=True)
class Both:
    """A report in both languages."""

    english: Told
    chinese: Told


@cache
def _template() -> Template:
    """The page's template, compiled once a process."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as fault:
        raise UsageError("the page needs jinja2, which is not installed", hint="pip install jinja2") from fault
    environment = Environment(
        loader=PackageLoader("paralign", "report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals.update(
        figure=figure, section=_section, differing=_differing, lookup=_lookup, in_chinese=_in_chinese, values_of=_values_of
    )
    return environment.get_template("page.html.j2")


def html(both: Both, *, title: str = "paralign", command: str = "", language: str = "en", figures: dict[str, Any] | None = None) -> str:
    """The page.

    Args:
        both: the report of a check; the files that its lines name are read, if they are there, for the code around the lines.
        title: of the page: the project's name.
        command: what makes the report again.
        language: ``en`` or ``zh``: what the page starts with; it has both.
        figures: what :func:`paralign.report.figures.of` gives.

    Raises:
        UsageError: jinja2 is not installed.
    """
    report, known = both.english, figures or {}
    first = next((stage for stage in report.stages if stage.faults and stage.verdict != ALIGNED), None)
    failed = next((stage for stage in report.stages if stage.raised), None) if first is None else None
    return _template().render(
        report=report,
        chinese=both.chinese,
        title=one_line(title),
        command=one_line(command),
        language=language,
        words=WORDS,
        first=first,
        failed=failed,
        passed=_panes(*failed.raised[:PASSED]) if failed is not None else [],
        row=_in_order(report.stages),
        marks=MARKS,
        missing=[name for name in BY_NAME if name not in {stage.name for stage in report.stages}],
        further={stage.name: [_coded(fault.further[:FURTHER]) for fault in stage.faults] for stage in report.stages},
        panes={stage.name: [_panes(fault.reference, fault.candidate) for fault in stage.faults] for stage in report.stages},
        tables={stage.name: _table(stage) for stage in report.stages},
        operations=_packed(_shown_operations(known.get("operations") or {}, report)),
        drawings={name: _packed(each) for name, each in (known.get("stages") or {}).items()},
    )


def _in_order(stages: Sequence[StageTold]) -> list[tuple[str, StageTold | None, int]]:
    """All stages in the order of the guide, whatever order they ran in.

    Of each its name, what is told of it (None where it was not run), and its number on the page.
    """
    told_of = {stage.name: (stage, number) for number, stage in enumerate(stages, 1)}
    names = dict.fromkeys([*BY_NAME, *told_of])
    return [(name, *told_of.get(name, (None, 0))) for name in names]


def _shown_operations(operations: dict[str, Any], report: Told) -> dict[str, Any]:
    """The operations of both sides, and the numbers of those that the report calls guilty."""
    if not operations:
        return {}
    faults = [fault for stage in report.stages for fault in stage.faults]
    guilty = {
        "reference": [_row_of(operations["reference"], fault.reference) for fault in faults],
        "candidate": [_row_of(operations["candidate"], fault.candidate) for fault in faults],
    }
    return {**operations, "guilty": guilty}


def _row_of(rows: list[list[Any]], place: Place | None) -> int:
    """The number of the operation that a report calls guilty, -1 without one.

    Of several in one module the one of the fault's own line, else the first that differs.
    """
    if place is None:
        return -1
    wanted = [place.module, place.operation.partition(" (")[0]]
    alike = [number for number, row in enumerate(rows) if [row[0], row[2]] == wanted]
    on_its_line = [number for number in alike if rows[number][3] == f"{place.shown}:{place.line}"]
    alike = on_its_line or alike
    differing = [number for number in alike if rows[number][5] != "right"]
    return next(iter(differing or alike), -1)


def _packed(data: Any) -> dict[str, Any]:
    """Data of the page's script: JSON in base64, deflated where it is long."""
    raw = json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    packed = len(raw) > PLAIN
    return {"there": bool(data), "packed": packed, "data": base64.b64encode(zlib.compress(raw, 9) if packed else raw).decode()}


def _section(stage: str) -> str:
    """The section of the migration guide that a stage is of."""
    return BY_NAME[stage].guide if stage in BY_NAME else ""


def _differing(fault: Fault) -> list[tuple[str, str]]:
    """Of the arguments of a fault's operations, those that the sides have otherwise, by side."""
    if fault.reference is None or fault.candidate is None:
        return []
    first, second = fault.reference.arguments, fault.candidate.arguments
    if not are_comparable(fault.kind, first, second):
        return []
    known_names = argument_differences(first, second)
    if known_names:  # of one meaning under two names: the others are each framework's own
        own = ", ".join(f"{name}={value}" for name, value, _ in known_names)
        due = ", ".join(f"{name}={value}" for name, _, value in known_names)
        return [("reference", shortened(one_line(due))), ("candidate", shortened(one_line(own)))]
    told = []
    for side, own_arguments, others in (("reference", first, second), ("candidate", second, first)):
        differing = []
        for key in {**first, **second}:
            if key not in own_arguments or (key in others and others[key] == own_arguments[key]):
                continue
            differing.append(f"{key}={own_arguments[key]}")
        if differing:
            told.append((side, shortened(one_line(", ".join(differing)))))
    return told


def _values_of(stage: StageTold) -> tuple[str, str]:
    """How many values a stage judged, in both languages."""
    count = sum(pair.judged for pair in stage.pairs)
    english, chinese = WORDS["values_"]
    return of_one(f"{count} {english}"), f"{count} {chinese}"


def _panes(*places: Place | None) -> list[Pane]:
    return [Pane(place, where(place), _around(place)) for place in places if place is not None]


def _coded(places: Sequence[Place]) -> list[tuple[str, str]]:
    """Where each line is, and its code as the file has it now.

    '' of a file that cannot be read.
    """
    read = [(place, _lines(place.file)) for place in places]
    return [(where(place), lines[place.line - 1].strip()[:WIDTH] if 0 < place.line <= len(lines) else "") for place, lines in read]


def _around(place: Place) -> tuple[CodeLine, ...]:
    """The code around a line as the file has it now; nothing where it has changed since."""
    lines = _lines(place.file) if place.file else []
    if not _is_unchanged(place, lines):
        return (CodeLine(place.line, place.code[:WIDTH], guilty=True),) if place.code else ()
    first = max(1, place.line - AROUND)
    shown = range(first, min(len(lines), place.line + AROUND) + 1)
    return tuple(CodeLine(number, lines[number - 1][:WIDTH], number == place.line) for number in shown)


def _is_unchanged(place: Place, lines: Sequence[str]) -> bool:
    """Whether a file's lines still have the code of a place on its line."""
    if not 0 < place.line <= len(lines):
        return False
    return place.code.strip() in lines[place.line - 1]


def _lines(file: str) -> list[str]:
    """The lines of a source file; none of one that cannot be read, or is no source."""
    try:
        with open_regular(file) as opened:
            raw = opened.read(LONGEST_SOURCE + 1)
        text = raw.decode("utf-8")
    except (UsageError, OSError, ValueError):
        return []
    if len(raw) > LONGEST_SOURCE:
        return []
    return [one_line(line.expandtabs(4)) for line in text.splitlines()]


def _table(stage: StageTold) -> dict[str, Any]:
    """The rows of a stage's values, worst first, as JSON in base64.

    It is deflated where there are many.
    """
    rows = sorted(stage.pairs, key=lambda pair: (pair.verdict == ALIGNED, not pair.judged, -_size(pair)))
    data = [
        [p.key, p.verdict, p.judged, figure(p.error), figure(p.noise), figure(p.ratio), _bar(p.ratio), p.shape, p.dtype, p.how, p.notes]
        for p in rows
    ]
    distinct = list(dict.fromkeys(note for p in rows for note in p.notes))[:TRANSLATED]
    chinese = {}
    with speaking("zh"):
        for note in distinct:
            text = say(note)
            if text != note:
                chinese[note] = text
    return {"rows": len(rows), **_packed({"rows": data, "chinese": chinese})}


def _in_chinese(text: str) -> str:
    """A text that a report keeps in English, as a reader of Chinese is shown it."""
    with speaking("zh"):
        return say(text)


def _lookup(stages: tuple[StageTold, ...], name: str) -> StageTold:
    return next(stage for stage in stages if stage.name == name)


def _size(pair: PairRow) -> float:
    """How bad a pair is beside others of its verdict.

    One that differs without a noise to divide by is worse than all.
    """
    if pair.ratio is None or math.isnan(pair.ratio):
        return -1.0 if pair.verdict == ALIGNED else math.inf
    return pair.ratio


def _bar(ratio: float | None) -> int:
    """How long the bar of a ratio is, in percent.

    One decade is 8, a ratio of 1 stands in the middle.
    """
    if ratio is None or math.isnan(ratio):
        return -1
    if ratio <= 0:
        return 0
    return 100 if math.isinf(ratio) else max(0, min(100, round(50 + 8 * math.log10(ratio))))
