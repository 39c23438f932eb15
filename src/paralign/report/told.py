"""A report as people read it, from ``report.json`` alone.

Of each stage a sentence, the two lines of code, the evidence.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rich.text import Text

from paralign.capture.bounds import Limit, near, open_regular
from paralign.errors import CaptureFormatError, UsageError, one_line, shortened
from paralign.model import ALIGNED, DIVERGED, ERROR, NOT_TESTED, SCHEMA, UNDERPOWERED, Coverage, Finding, SourceLine, TracedValue
from paralign.report.fault_sentences import SENTENCES, difference, operation, steps, valued
from paralign.report.findings import EDITED, changed_lines, experiment, words
from paralign.report.language import say, speaking
from paralign.report.text import figure, from_folder, looked_at, message, relative

if TYPE_CHECKING:
    from pathlib import Path
    from typing import TypeGuard

#: a report of 10,000 operations has about 20 MB
LONGEST = Limit("PARALIGN_MAX_REPORT", 1 << 28, "bytes")

#: what a stage can come to
VERDICTS = (ALIGNED, UNDERPOWERED, NOT_TESTED, DIVERGED, ERROR)

#: how a line that a failure passed stands in a report (``errors.WorkerFailed``); what is indented is code, or a caret below it
FRAME = re.compile(r"(?P<line>.+?:\d+)(?: in .+?: (?P<code>.*))?")

#: characters of a line of code in a sentence; the page and the terminal show the line below
CODE = 90

#: characters of a sentence that heads a stage
SENTENCE = 400


@dataclass(frozen=True)
class Place:
    """A line of a program, its code, and the operation and the module it is in.

    ``line`` counts from 1; 0 where unknown.

    ``shown`` is the file as people are shown it: from the project's folder where it lies below.
    """

    side: str
    file: str
    shown: str
    line: int
    code: str
    operation: str
    module: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Fault:
    """A guilty point: its places on both sides, whether confirmed, and the evidence.

    ``value`` is what is wrong at the line, where that is known: ``reference`` is then the line that it comes from. ``region`` are the
    lines of the steps at fault, from the project's folder. ``further`` are the next likeliest lines of the candidate, the likeliest first.
    """

    reference: Place | None
    candidate: Place | None
    confirmed: bool
    evidence: str
    kind: str
    rule: str
    notes: tuple[str, ...] = ()
    relation: str = ""
    value: TracedValue | None = None
    region: tuple[str, ...] = ()
    further: tuple[Place, ...] = ()


@dataclass(frozen=True)
class Cause:
    """What is wrong and what to write instead.

    ``proven``: it was tried and the error was gone. ``patch``: the lines that it changes, each with its sign. ``tried``: what came of
    the experiment, '' without one.
    """

    rule: str
    cause: str
    fix: str
    proven: bool
    patch: tuple[str, ...] = ()
    tried: str = ""


@dataclass(frozen=True)
class PairRow:
    """One compared value.

    Figures are None where there is none, and the notes English: there may be very many.
    """

    key: str
    verdict: str
    judged: bool
    how: str
    shape: str
    dtype: str
    error: float | None
    noise: float | None
    ratio: float | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class StageTold:
    """One stage.

    ``sentence`` says the most important thing of it, '' for a stage that is aligned without a remark. ``raised``: the lines of the
    user's code that a failure passed, the innermost first.
    """

    name: str
    verdict: str
    sentence: str
    method: str
    coverage: tuple[str, ...]
    ratio: float | None
    faults: tuple[Fault, ...]
    causes: tuple[Cause, ...]
    pairs: tuple[PairRow, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    failure: str
    frames: tuple[str, ...]
    raised: tuple[Place, ...]
    seconds: float
    follows: tuple[str, ...]

    @property
    def mended(self) -> bool:
        """Whether a proven patch makes the stage aligned."""
        return any(cause.proven and cause.patch for cause in self.causes)

    @property
    def starting(self) -> tuple[Fault, ...]:
        """The faults to look at: where a proven patch makes the stage aligned, the first."""
        return self.faults[:1] if self.mended else self.faults

    @property
    def further_warnings(self) -> tuple[str, ...]:
        """The warnings that the sentence does not say already."""
        return tuple(text for text in self.warnings if shortened(text, SENTENCE) != self.sentence)

    @property
    def further_notes(self) -> tuple[str, ...]:
        """The notes that the sentence does not say already."""
        return tuple(text for text in self.notes if shortened(text, SENTENCE) != self.sentence)

    @property
    def lines(self) -> list[Place]:
        """The candidate's places at fault whose lines are known."""
        return [fault.candidate for fault in self.faults if has_a_line(fault.candidate)]


@dataclass(frozen=True)
class Told:
    """A whole report; ``command`` makes it again, '' where that is not known."""

    verdict: str
    preflight: tuple[str, ...]
    stages: tuple[StageTold, ...]
    command: str = ""

    @property
    def headline(self) -> str:
        """The sentence of the first stage that decides the verdict."""
        for s in self.stages:
            if s.verdict == self.verdict and s.sentence:
                return f"{s.name}: {s.sentence}"
        return ""


def read(path: Path, root: Path | None = None, language: str = "en") -> Told:
    """The report of a check.

    Args:
        path: ``report.json``, or the output folder that holds it.
        root: as in :func:`told`.
        language: as in :func:`told`.

    Raises:
        UsageError: there is no such file, or it is none of a check's.
        CaptureFormatError: it is damaged, or of another schema.
    """
    file, report = _loaded(path)
    return told(report, str(file), root, language)


def names_of(path: Path, key: str) -> list[tuple[str, tuple[str, str]]]:
    """The stages that compared a value, each with both sides' names of it.

    Args:
        path: as in :func:`read`.
        key: the value's key; one that no stage has is taken for a name of both sides in every stage.

    Raises:
        UsageError, CaptureFormatError: as :func:`read`.
    """
    file, report = _loaded(path)
    stages = told(report, str(file)).stages
    found = []
    for stage in report["stages"]:
        for pair in stage.get("pairs", ()):
            sides = pair.get("reference"), pair.get("candidate")
            if pair["key"] == key and all(isinstance(side, dict) for side in sides):
                found.append((str(stage["name"]), (str(sides[0]["name"]), str(sides[1]["name"]))))
    return found or [(stage.name, (key, key)) for stage in stages]


def _loaded(path: Path) -> tuple[Path, Any]:
    """The file of a report and what it holds."""
    file = path / "report.json" if path.is_dir() else path
    if not file.exists():
        raise UsageError(
            f"there is no report{near(path)}",
            where=str(file),
            hint="name the output folder of `paralign check`, or its report.json",
        )
    with open_regular(file) as opened:
        raw = opened.read(LONGEST.value + 1)
    LONGEST.check(len(raw), "the report has more than", str(file))
    try:
        return file, json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as fault:
        raise CaptureFormatError(f"the report is no JSON: {fault}", where=str(file), hint="run the check again") from fault


def told(report: Any, where: str = "report", root: Path | None = None, language: str = "en") -> Told:
    """A report as ``CheckResult.to_dict`` gives it.

    Args:
        report: the report.
        where: what messages call it.
        root: the folder from which paths are shown; None shows them whole.
        language: of the sentences; what programs read is English.

    Raises:
        CaptureFormatError: it lacks what every report has.
    """
    if not isinstance(report, dict) or not isinstance(report.get("stages"), list):
        raise CaptureFormatError("this is no report of a check: it has no list of stages", where=where, hint="run `paralign check` again")
    if report.get("schema") != SCHEMA:
        raise CaptureFormatError(
            f"the report has schema {shortened(repr(report.get('schema')))}; this version reads {SCHEMA}",
            where=where,
            hint="use the version of paralign that wrote it, or run the check again",
        )
    try:
        with speaking(language):
            stages = tuple(_stage(stage, root) for stage in report["stages"])
            return Told(_verdict(report["verdict"]), _sentences(report, "preflight"), stages, _line(report.get("command", "")))
    except (KeyError, TypeError, ValueError, AttributeError) as fault:
        raise CaptureFormatError(f"the report is damaged: {fault!r}", where=where, hint="run the check again") from fault


def _verdict(value: Any) -> str:
    if value not in VERDICTS:
        raise ValueError(f"no verdict: {shortened(repr(value))}")
    return str(value)


def _stage(stage: dict[str, Any], root: Path | None) -> StageTold:
    faults = tuple(_fault(fault, root) for fault in _faults(stage))
    causes = tuple(_cause(finding, root) for finding in stage.get("findings", ()))
    pairs = tuple(_pair(pair) for pair in stage.get("pairs", ()))
    failure = stage.get("failure") or {}
    seconds = stage.get("seconds") or {}
    own = StageTold(
        name=_line(stage["name"]),
        verdict=_verdict(stage["verdict"]),
        sentence="",
        method=_line(stage.get("method", "")),
        coverage=tuple(_amount(part) for part in stage.get("coverage", ())),
        ratio=number(stage.get("ratio")),
        faults=faults,
        causes=causes,
        pairs=pairs,
        warnings=_sentences(stage, "warnings"),
        notes=_sentences(stage, "notes"),
        failure=_failure(failure),
        frames=tuple(_line(text) for text in failure.get("frames", ())),
        raised=_raised(failure, root),
        seconds=number(seconds.get("total")) or 0.0,
        follows=tuple(_line(text) for text in stage.get("follows", ())),
    )
    shown = tuple(fault for fault in faults if not _says_nothing(fault))
    return replace(own, faults=shown, sentence=shortened(_sentence(own), SENTENCE))


def _says_nothing(fault: Fault) -> bool:
    """Whether a fault only names one value of both sides.

    The stage's sentence does that. It has no line, no operation and no figure.
    """
    places = (fault.reference, fault.candidate)
    if any(place is None or place.file or place.operation for place in places):
        return False
    if len({place.module for place in places if place is not None}) > 1:
        return False
    return not (fault.notes or fault.kind or fault.confirmed)


def _failure(failure: dict[str, Any]) -> str:
    """Which side failed and how; '' where none did."""
    if not failure:
        return ""
    side, kind = say(str(failure["side"])), str(failure["type"])
    said = " ".join(message(failure).split())
    return _line(say("the {side} failed: {kind}: {message}", side=side, kind=kind, message=said))


def _raised(failure: dict[str, Any], root: Path | None) -> tuple[Place, ...]:
    """The lines of the user's code that a failure passed, the innermost first."""
    found = []
    code = ""
    for text in reversed(failure.get("frames", ())):
        if str(text).startswith(" "):  # of a file that is no Python; the caret is below the code
            code = str(text).strip()
            continue
        frame = FRAME.fullmatch(_line(str(text)))
        line = SourceLine.of(frame["line"]) if frame is not None else None
        if frame is None or line is None:
            continue
        shown = from_folder(line.file, root)
        found.append(Place(str(failure["side"]), line.file, shown, line.line, frame["code"] or _line(code), "", ""))
        code = ""
    return tuple(found)


def _sentences(part: dict[str, Any], key: str) -> tuple[str, ...]:
    return tuple(say(_line(text)) for text in part.get(key, ()))


def _cause(finding: dict[str, Any], root: Path | None) -> Cause:
    known = Finding(str(finding["rule"]), str(finding["cause"]), str(finding["fix"]), bool(finding["proven"]))
    known.cause_zh, known.fix_zh = str(finding.get("cause_zh") or ""), str(finding.get("fix_zh") or "")
    cause, fix = (relative(Text(text), root).plain for text in words(known))
    patch = tuple(_line(line) for line in changed_lines(str(finding.get("patch") or "")))
    known.error_before, known.error_after = number(finding.get("error_before")), number(finding.get("error_after"))
    known.together = [str(place) for place in finding.get("together") or ()]
    tried = relative(Text(experiment(known, figure)), root).plain
    return Cause(_line(known.rule), _line(cause), _line(fix), known.proven, patch, _line(tried))


def _faults(stage: dict[str, Any]) -> list[dict[str, Any]]:
    listed = list(stage.get("divergences") or ())
    if not listed and stage.get("divergence"):
        listed.append(stage["divergence"])
    return listed


def _fault(fault: dict[str, Any], root: Path | None) -> Fault:
    first, second = (_place(side, fault.get(side), root) for side in ("reference", "candidate"))
    told_before = () if _is_edited(fault) else _sentences(fault, "notes")
    notes = tuple(relative(Text(note), root).plain for note in told_before)
    kind, rule = (_line(fault.get(key, "")) for key in ("what", "rule"))
    relation = say(_line(str(fault.get("relation") or "")))
    region = tuple(from_folder(_line(text), root) for text in fault.get("region") or ())
    value = _value(fault.get("value"))
    if value is not None and value.source:
        first = _from(value, first, root)
    own = fault.get("candidate")
    lines = dict.fromkeys(map(str, (own or {}).get("lines") or ()))
    further = tuple(place for text in lines if (place := _further(text, root)) is not None)
    return Fault(first, second, bool(fault.get("confirmed")), _evidence(fault), kind, rule, notes, relation, value, region, further)


def _further(text: str, root: Path | None) -> Place | None:
    """A further line of the candidate; None of a text that names none."""
    line = SourceLine.of(text)
    return None if line is None else Place("candidate", _line(line.file), _line(from_folder(line.file, root)), line.line, "", "", "")


def _value(known: dict[str, Any] | None) -> TracedValue | None:
    if known is None:
        return None
    source, code = (None if known.get(part) is None else _line(known[part]) for part in ("source", "code"))
    own, due = (_plain(known.get(side)) for side in ("candidate", "reference"))
    return TracedValue(own, due, source, code)


def _plain(value: Any) -> Any:
    """A value as it was before JSON, which has words for infinities and NaN."""
    return number(value) if value in ("inf", "-inf", "nan") else value


def _from(value: TracedValue, point: Place | None, root: Path | None) -> Place:
    """The reference's line that a value comes from, as the place of a fault."""
    line = SourceLine.of(str(value.source))
    known = point or Place("reference", "", "", 0, "", "", "")
    if line is None:
        return known
    return replace(known, file=line.file, shown=from_folder(line.file, root), line=line.line, code=value.code or "")


def _place(side: str, point: dict[str, Any] | None, root: Path | None) -> Place | None:
    if point is None:
        return None
    file = shown = ""
    at = 0
    line = SourceLine.of(str(point.get("source") or ""))
    if line is not None:
        file, shown, at = _line(line.file), _line(from_folder(line.file, root)), line.line
    code, operation = _line(point.get("code") or ""), _line(point.get("op") or "")
    given = point.get("arguments")
    arguments = {_line(str(key)): value for key, value in given.items()} if isinstance(given, dict) else {}
    return Place(side, file, shown, at, code, operation, _line(point["name"]), arguments)


def _is_edited(fault: dict[str, Any]) -> bool:
    """Whether a proven edit has named a point's line."""
    return str(fault.get("rule", "")).startswith(EDITED)


def _evidence(fault: dict[str, Any]) -> str:
    """What the numbers say of a point.

    '' of one that an edit has proven: its cause says that, and the figures are of what was located before.
    """
    if _is_edited(fault):
        return ""
    error, noise, after = (number(fault.get(what)) for what in ("error", "noise", "error_after"))
    parts = [] if error is None else [say("error {error}", error=figure(error))]
    if error is not None and noise:
        parts.append(say("{ratio} times its noise", ratio=figure(error / noise)))
    if after is not None:
        parts.append(say("with the reference's value put here the outputs differ by {error}", error=figure(after)))
    by_run = "confirmed by that run" if after is not None else "confirmed by a run"
    parts.append(say(by_run) if fault.get("confirmed") else say("not confirmed by a run"))
    return say(", ").join(parts)


def _pair(pair: dict[str, Any]) -> PairRow:
    known = pair.get("reference") or pair.get("candidate") or {}
    shape = " x ".join(str(int(length)) for length in known.get("shape") or ())
    return PairRow(
        key=_line(pair["key"]),
        verdict=_verdict(pair["verdict"]),
        judged=bool(pair.get("judged", True)),
        how=_line(pair.get("how") or ""),
        shape=shape or "scalar",
        dtype=_line(known.get("dtype") or ""),
        error=number(pair.get("error")),
        noise=number(pair.get("noise")),
        ratio=number(pair.get("ratio")),
        notes=tuple(_line(text) for text in pair.get("notes", ())),
    )


def _amount(part: dict[str, Any]) -> str:
    total = part.get("total")
    return looked_at(Coverage(_line(part["what"]), int(part["compared"]), None if total is None else int(total)))


def _sentence(stage: StageTold) -> str:
    """What a reader has to know first."""
    if stage.failure:
        return stage.failure
    if stage.verdict == DIVERGED:
        return _difference(stage)
    if stage.verdict == ALIGNED:
        return next(iter(stage.warnings), "")
    deciding = [pair for pair in stage.pairs if pair.judged and pair.verdict == stage.verdict]
    weak = [f"{pair.key}: {'; '.join(map(say, pair.notes))}" for pair in deciding if pair.notes]
    return next(iter((*stage.warnings, *weak, *stage.notes)), say("nothing was compared"))


def _difference(stage: StageTold) -> str:
    """The proven cause, else the first line at fault, else the first differing value."""
    proven = next((cause for cause in stage.causes if cause.proven), None)
    first = next(iter(stage.faults), None)
    places = ""
    if first is not None and has_a_line(first.candidate):
        places = _places(first.candidate, first.reference)
    if proven is not None:
        return f"{proven.cause}; {proven.fix}" + (_other_places(proven, first) if places else "")
    if first is not None and first.kind:
        return _of_fault(first)
    if stage.causes:
        return say("perhaps {cause}; {fix}", cause=stage.causes[0].cause, fix=stage.causes[0].fix) + places
    return _of_pairs(stage)


def _other_places(cause: Cause, fault: Fault | None) -> str:
    """Where both sides are to be looked at, without the place that a fix names itself."""
    if fault is None or fault.candidate is None:
        return ""
    place = f"{fault.candidate.shown.rpartition('/')[2]}:{fault.candidate.line}"  # a fix names it from the project's folder
    if place not in cause.fix:
        return _places(fault.candidate, fault.reference)
    if fault.reference is None or not fault.reference.file:
        return ""
    return say(" (reference: {due})", due=where(fault.reference))


def has_a_line(place: Place | None) -> TypeGuard[Place]:
    """Whether the line of a place is known."""
    return place is not None and bool(place.file)


def _of_fault(fault: Fault) -> str:
    if fault.candidate is None and fault.reference is not None:
        return say("what the reference does at {place} has no counterpart in the candidate", place=where(fault.reference))
    if fault.candidate is None:
        return say("a point without a counterpart")
    doubt = "" if fault.confirmed else say(", not confirmed")
    return _said(fault) + _how(fault) + _places(fault.candidate, fault.reference) + doubt


def _places(candidate: Place, reference: Place | None) -> str:
    """Where both sides are to be looked at, and the candidate's code, behind a sentence."""
    code = f": {shortened(candidate.code.rstrip(','), CODE)}" if candidate.code else ""
    if reference is None or not reference.file:
        return f" ({where(candidate)}{code})"
    return say(" ({place}; reference: {due})", place=where(candidate) + code, due=where(reference))


def _said(fault: Fault) -> str:
    """What is wrong at a guilty point, by its kind."""
    own, step = ("" if place is None else operation(place.module, place.operation) for place in (fault.candidate, fault.reference))
    said = SENTENCES.get(fault.kind)
    if said is None:
        return fault.notes[0] if fault.notes else say("right inputs and another result")
    return say(said, op=own or step or say("the model itself"), step=step or say("something"))


def _how(fault: Fault) -> str:
    """What differs in arguments at a guilty point, else how its result came about."""
    due, own = (None if place is None else place.arguments for place in (fault.reference, fault.candidate))
    return difference(fault.kind, fault.value, (due, own), fault.relation) + steps(fault.region)


def _of_pairs(stage: StageTold) -> str:
    """The first value that differs, its line, and what is known of that line."""
    note = next((note for each in stage.faults for note in each.notes), "")
    said = _first_difference(stage) or note or say("it differs")
    for fault in stage.faults:
        if has_a_line(fault.candidate):
            told = valued(fault.value)
            if not told and note and note != said:
                told = say("; {more}", more=note)
            return said + told + _places(fault.candidate, fault.reference)
    return note or said


def _first_difference(stage: StageTold) -> str:
    """By how much the first value differs, and how many more do; '' where none does."""
    wrong = [pair for pair in stage.pairs if pair.judged and pair.verdict == DIVERGED]
    if not wrong:
        return ""
    more = say(", and {count} more", count=len(wrong) - 1) if len(wrong) > 1 else ""
    known = {note for fault in stage.faults for note in fault.notes}
    note = next((f" ({text})" for text in map(say, wrong[0].notes[:1]) if text not in known), "")
    return say("{key} differs by {error}", key=wrong[0].key, error=figure(wrong[0].error)) + note + more


def where(place: Place) -> str:
    """``file:line``; where the line is not known, the module or operation."""
    if place.file:
        return f"{place.shown}:{place.line}"
    return place.module or place.operation or say("the model itself")


def number(value: Any) -> float | None:
    """A figure of a report: infinities and NaN are words there.

    >>> number("inf"), number(None), number(2)
    (inf, None, 2.0)
    """
    if value in ("inf", "-inf", "nan"):
        return float(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    return None


def _line(text: Any) -> str:
    return one_line(str(text))
