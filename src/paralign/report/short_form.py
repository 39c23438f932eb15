"""A diverged check in twelve lines; ``-v`` shows the rest.

The sentence, both lines of code, the patch, the evidence.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.text import Text

from paralign import errors
from paralign.errors import one_line
from paralign.model import DIVERGED, ERROR, NOT_TESTED, UNDERPOWERED
from paralign.report import language, text
from paralign.report.fault_sentences import SENTENCES, difference, operation, steps, valued
from paralign.report.findings import changed_lines, edited_place, experiment, mends, words
from paralign.report.language import say
from paralign.report.text import STYLE, conclusion, figure, measured, pair_line, relative, shortened, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from rich.console import RenderableType

    from paralign.model import CheckResult, Divergence, Finding, Pair, Point, StageResult, TracedValue

#: lines between the table and the verdict: what a reader takes in at once
LINES = 12

#: lines of code named beside the first one, and lines of a patch
FURTHER, CHANGED = 4, 4

#: lines that every block gets before one gets more: the sentence, both lines of code, the fix or the two lines of a patch
FIRST = 5

#: lines of what all rests on: guessed weights, weights that were not carried over, a side that is not deterministic, the other
DOUBTS = 4

#: causes of a whole training that are parts of it -> the stages that judge these parts, and name their lines; that one side clips in its
#: loop cannot be seen while its losses differ
LED_TO = {
    "train/data": frozenset({"data"}),
    "train/init": frozenset({"init"}),
    "train/optimizer": frozenset({"optimizer", "backward"}),
    "train/model": frozenset({"forward", "loss", "backward", "metric"}),
    "update/clip": frozenset({"forward", "loss"}),
}

#: characters of a sentence: two lines of a terminal; of a remark, which may name two files with their folders
SENTENCE, REMARK = 200, 300


@dataclass
class Block:
    """What is said of one stage, or of several that only inherit.

    The most important line comes first.
    """

    lines: list[Text] = field(default_factory=list)


def render(result: CheckResult, root: Path | None = None, *, verbose: bool = False, saved: bool = True) -> RenderableType:
    """A result for the terminal: in short, unless all is asked for.

    Args:
        result: of a check, or a comparison.
        root: the project's folder, from which paths are shown; None shows them whole.
        verbose: show everything that is said of each stage.
        saved: whether ``report.json`` was written; what was only printed is had whole by ``--json``.
    """
    if verbose or not any(stage.verdict == DIVERGED for stage in result.stages):
        return text.render(result, root, folded=not verbose)
    head = [Text(say(line), style="dim") for line in result.preflight]
    return Group(*head, table(result), *(relative(line, root) for line in _lines(result, saved=saved)), conclusion(result))


def _lines(result: CheckResult, *, saved: bool) -> list[Text]:
    """At most ``LINES`` lines: what the stages say, what that rests on, how much is left out."""
    left_out, doubts = _left_out(result, saved=saved), _doubts(result)
    room = LINES - len(doubts)
    if left_out:
        room -= 1
    lines = _dealt([block for block in _blocks(result) if block.lines], room)
    said = "\n".join(line.plain for line in lines)
    lines += [Text.assemble((say("warning: "), "yellow"), doubt) for doubt in doubts if doubt not in said]
    if left_out:
        lines.append(Text(left_out, "dim"))
    return lines


def _doubts(result: CheckResult) -> list[str]:
    """What all that is said rests on, where that is less than it seems; each once."""
    doubts = (shortened(one_line(say(doubt)), SENTENCE) for stage in result.stages for doubt in stage.doubts)
    return list(dict.fromkeys(doubts))[:DOUBTS]


def _dealt(blocks: list[Block], room: int) -> list[Text]:
    """The head of every block, then as much of each as there is room for."""
    if len(blocks) > room:
        more = Text(say("… and {count} more in report.json", count=len(blocks) - room + 1), "dim")
        blocks = [*blocks[: room - 1], Block([more])]
    room -= len(blocks)
    shown = [1 for _ in blocks]
    for most in (FIRST, LINES):
        for number, block in enumerate(blocks):
            further = min(room, max(0, min(most, len(block.lines)) - shown[number]))
            shown[number] += further
            room -= further
    return [line for number, block in enumerate(blocks) for line in block.lines[: shown[number]]]


def _blocks(result: CheckResult) -> Iterator[Block]:
    """The stages that say something.

    Faults of their own, what failed, what only follows, what was not judged.
    """
    following: dict[str, list[StageResult]] = {}
    weak: dict[str, list[StageResult]] = {}
    inherited = _inherited(result)
    failures: list[object] = []
    for stage in result.stages:
        if stage.name in inherited:
            following.setdefault(inherited[stage.name], []).append(stage)
        elif stage.failure is not None:
            if stage.failure not in failures:
                yield Block(_failed(stage))
            failures.append(stage.failure)
        elif stage.verdict == DIVERGED:
            yield Block(_diverged(stage))
        elif stage.verdict == UNDERPOWERED:
            weak.setdefault(_weakness(stage), []).append(stage)
    for why, stages in (*following.items(), *weak.items()):
        yield Block([_together(stages, why)])
    lacking = [stage for stage in result.stages if stage.verdict == NOT_TESTED and stage.lacks]
    if lacking:
        functions = ", ".join(dict.fromkeys(name for stage in lacking for name in stage.lacks))
        yield Block([_together(lacking, say("define {functions}", functions=functions))])


def _inherited(result: CheckResult) -> dict[str, str]:
    """Stages that say nothing of their own -> what is said of them.

    Gone with a patch, following from an earlier stage, or of the cause that an earlier stage has told.
    """
    behind = {name: stage.name for stage in result.stages for finding in stage.findings for name in finding.gone}
    found: dict[str, str] = {}
    causes: dict[tuple[str | None, ...], str] = {}
    for stage in result.stages:
        cause = _cause(stage)
        if stage.name in behind:
            found[stage.name] = say("gone with the patch of {first}", first=language.stage(behind[stage.name]))
        elif stage.failure is not None or stage.verdict != DIVERGED:
            continue
        elif stage.follows and not _has_own_cause(stage):
            first = say(" and ").join(map(language.stage, stage.follows[:1]))
            found[stage.name] = say("may only follow from {stages}: look there first", stages=first)
        elif cause is not None or _has_lines(stage):
            first = causes.setdefault(_told_of(stage, cause), stage.name)
            if first != stage.name:
                found[stage.name] = say("the same cause as in {first}", first=language.stage(first))
    return found


def _has_lines(stage: StageResult) -> bool:
    """Whether a line of the candidate's is named."""
    return stage.divergence is not None and stage.divergence.candidate is not None and stage.divergence.candidate.source is not None


def _told_of(stage: StageResult, cause: Finding | None) -> tuple[str | None, ...]:
    """What tells one cause from another: the finding, or the sentence with both lines."""
    if cause is not None:
        return cause.rule, cause.cause
    fault = stage.divergence
    points = [] if fault is None else [fault.reference, fault.candidate]
    return _sentence(stage, None), *(None if point is None else point.source for point in points)


def _has_own_cause(stage: StageResult) -> bool:
    """Whether a cause was proven that no earlier stage judges better."""
    return any(f.proven and not LED_TO.get(f.rule, frozenset()).intersection(stage.follows) for f in stage.findings)


def _together(stages: list[StageResult], why: str) -> Text:
    names = ", ".join(language.stage(stage.name) for stage in stages)
    verdict = stages[0].verdict
    return Text.assemble((names, "bold"), " ", (say(verdict), STYLE[verdict]), ": ", shortened(one_line(why), SENTENCE))


def _weakness(stage: StageResult) -> str:
    """The first reason why a stage could not judge."""
    weak = [f"{pair.key}: {say(pair.notes[0])}" for pair in stage.pairs if pair.judged and pair.verdict == UNDERPOWERED and pair.notes]
    return next(iter((*map(say, stage.warnings), *weak, *map(say, stage.notes))), say("the test is too weak"))


def _headed(stage: StageResult, sentence: str) -> Text:
    return Text.assemble(
        (language.stage(stage.name), "bold"), " ", (say(stage.verdict), STYLE[stage.verdict]), ": ", shortened(one_line(sentence), SENTENCE)
    )


def _failed(stage: StageResult) -> list[Text]:
    """A side that failed: what it said, where, what to do."""
    failure = stage.failure or {}
    said, further = _message(failure)
    told = say("the {side} failed: ", side=say(failure["side"])) + f"{failure['type']}: {said}"
    lines = [_headed(stage, told), *(Text(f"  {shortened(one_line(line), SENTENCE)}") for line in further)]
    lines += [*(Text(f"  {one_line(frame)}", "dim") for frame in failure["frames"][-2:])]
    if failure.get("remedy"):
        lines.append(Text(say("  fix: {fix}", fix=say(failure["remedy"]["fix"]))))
    if failure.get("log"):
        lines.append(Text(f"  {say('log: ')}{failure['log']}"))
    return lines


def _message(failure: dict[str, Any]) -> tuple[str, list[str]]:
    """What a side said in one line, and the lines below it that say where and how to mend it.

    Only paralign's own errors have those; the lines of others are joined.
    """
    said = text.message(failure)
    if not isinstance(getattr(errors, failure["type"], None), type):
        return " ".join(said.split()), []
    first, *further = [line.strip() for line in said.splitlines()] or [""]
    return first, further


def _diverged(stage: StageResult) -> list[Text]:
    """The sentence, the two lines of code, the patch or the fix, the evidence, further lines."""
    found, fault = _cause(stage), stage.divergence
    lines = [_headed(stage, _sentence(stage, found))]
    if fault is not None:
        lines += _code(fault, found.patch if found is not None else "")
    if found is not None:
        changed = [Text(f"    {line}", "cyan") for line in changed_lines(found.patch)[:CHANGED]]
        lines += changed or [Text(say("  fix: {fix}", fix=shortened(one_line(words(found)[1]), SENTENCE)))]
    remark = _remark(stage, found)
    if remark:
        lines.append(Text(f"  {shortened(one_line(remark), REMARK)}"))
    evidence = _evidence(stage, found)
    if evidence:
        lines.append(Text(f"  {evidence}"))
    further = _further(stage, found)
    if further:
        lines.append(Text(f"  {further}", "dim", no_wrap=True, overflow="ellipsis"))
    if found is not None and found.stays:
        lines.append(Text(say("  not gone: {stages}", stages=", ".join(found.stays))))
    return lines


def _remark(stage: StageResult, found: Finding | None) -> str:
    """What else is known without a cause: a point's note, else the first warning or note."""
    if found is not None:
        return ""
    fault = stage.divergence
    if fault is None:
        return say(_first_remark(stage))
    if fault.repeats or valued(fault.value):
        return ""
    if fault.what:
        further = [note for note in fault.notes[1:2] if note != fault.relation]  # which the sentence has
        return say(further[0]) if fault.confirmed and further else ""
    notes = fault.notes
    if not notes and fault.pair is not None:
        notes = fault.pair.notes
    in_sentence = [note for pair in _differing(stage)[:1] for note in pair.notes]
    if notes and notes[0] not in in_sentence:
        return say(notes[0])
    return say(_first_remark(stage))


def _first_remark(stage: StageResult) -> str:
    """The first warning of a stage; where no line is known, else its first note.

    That may say why. '' without any.
    """
    fault = stage.divergence
    points = [] if fault is None else [fault.reference, fault.candidate]
    if any(point is not None and point.source is not None for point in points):
        return next(iter(stage.warnings), "")
    return next(iter((*stage.warnings, *stage.notes)), "")


def _cause(stage: StageResult) -> Finding | None:
    """The cause to tell first: one with a patch, a proven one, then a suspected one."""
    ranked = sorted(stage.findings, key=lambda each: (not each.patch, not each.proven))
    return ranked[0] if ranked else None


def _sentence(stage: StageResult, found: Finding | None) -> str:
    fault = stage.divergence
    proven = found is not None and found.proven
    if fault is not None and fault.what and not proven:
        said = _of_kind(fault)
        if not fault.confirmed:
            said += say(" (not confirmed)")
        return said if found is None else f"{said}; {say('suspected cause: ')}{words(found)[0]}"
    if found is not None:
        head = "" if proven else say("suspected cause: ")
        return head + words(found)[0]
    wrong = _differing(stage)
    if not wrong:
        return say(_first_remark(stage) or "it differs")
    note = f" ({say(wrong[0].notes[0])})" if wrong[0].notes else ""
    return say("{key} differs", key=wrong[0].key) + note + _more(stage, wrong) + valued(None if fault is None else fault.value)


def _differing(stage: StageResult) -> list[Pair]:
    """The pairs that differ; those that show too little only where none does."""
    return stage.wrong or stage.not_aligned


def _more(stage: StageResult, wrong: list[Pair]) -> str:
    """How many values differ beside the first, and which of them most."""
    if len(wrong) == 1:
        return ""
    said = say(", and {count} more values", count=len(wrong) - 1)
    worst = stage.worst
    if worst is None or worst is wrong[0]:
        return said
    return said + say(" (most: {key})", key=one_line(worst.key))


def _of_kind(fault: Divergence) -> str:
    """What is wrong at a guilty point, with both values where they are known."""
    said = _said(fault)
    due, own = (None if point is None else point.arguments for point in (fault.reference, fault.candidate))
    relation = say(fault.relation) if fault.relation else ""
    return said + difference(fault.what, fault.value, (due, own), relation) + steps(fault.region)


def _said(fault: Divergence) -> str:
    """The sentence of a fault's kind; of a kind without one, its first note."""
    template = SENTENCES.get(fault.what)
    if template is None:
        return say(fault.notes[0]) if fault.notes else say("it differs")
    step = _operation(fault.reference) if fault.reference is not None else say("something")
    return say(template, op=_operation(fault.candidate or fault.reference), step=step)


def _operation(point: Point | None) -> str:
    """An operation as a porter calls it."""
    return (operation(point.name, point.op) if point is not None else "") or say("the model itself")


def _code(fault: Divergence, patch: str) -> Iterator[Text]:
    """Both lines of code.

    With a patch the candidate's place is the patch's, which shows the code.

    Nothing where neither is known and both sides' points have one name.
    """
    points = fault.reference, fault.candidate
    if all(point is not None and _is_placeless(point) for point in points) and len({p.name for p in points if p is not None}) == 1:
        return
    for side, point in (("reference", fault.reference), ("candidate", fault.candidate)):
        if patch and side == "reference" and point is None and not (fault.value is not None and fault.value.source):
            continue  # "no counterpart found" helps nobody who has the patch
        where, code = _place(point)
        if patch and side == "candidate":
            where, code = edited_place(patch, where) or where, ""
        if side == "reference" and fault.value is not None and fault.value.source:
            where, code = fault.value.source, _valued(fault.value)
        line = Text.assemble(
            say("  {side}: {point}", side=say(side), point=one_line(where)), (f"  {one_line(code)}" if code else "", "cyan")
        )
        line.no_wrap, line.overflow = True, "ellipsis"
        yield line


def _is_placeless(point: Point) -> bool:
    """Whether a point is no place in a program: a batch, a sample, a value."""
    return point.source is None and not point.op


def _place(point: Point | None) -> tuple[str, str]:
    """Where a point lies, and its code."""
    if point is None:
        return say("no counterpart found"), ""
    if _is_placeless(point):
        return say("{name}, the line is not known", name=_operation(point)), ""
    return point.source or _operation(point), point.code or ""


def _valued(value: TracedValue) -> str:
    """The text of the reference's line, and what it gives where that is known."""
    told = "" if value.reference is None else repr(value.reference)
    if value.code and told and told not in value.code:
        return f"{value.code}  = {told}"
    return value.code or told


def _evidence(stage: StageResult, found: Finding | None) -> str:
    """The experiment, or the numbers, on a line."""
    tried = "" if found is None else experiment(found, figure)
    if tried:
        return tried
    if stage.divergence is not None and stage.divergence.what and stage.divergence.error is not None:
        return measured(stage.divergence)
    wrong = _differing(stage)
    if wrong and wrong[0].error is not None:
        return pair_line(wrong[0]).plain.splitlines()[0]
    return ""


def _further(stage: StageResult, found: Finding | None) -> str:
    """Further lines and points, and how often the fault repeats, on one line.

    With a proven patch the stage is aligned: its other points are none to look at.
    """
    fault = stage.divergence
    parts = []
    named = None if fault is None or fault.candidate is None else fault.candidate.source
    further = [] if fault is None or fault.candidate is None else [each for each in dict.fromkeys(fault.candidate.lines) if each != named]
    if further:
        parts.append(say("further lines: {lines}", lines=_first_of(further)))
    if fault is not None and fault.repeats:
        parts.append(say("the same at {count} more places", count=fault.repeats))
    others = [each.candidate or each.reference for each in stage.divergences if each is not fault]
    if others and not mends(found):
        places = list(dict.fromkeys(point.source or _operation(point) for point in others if point is not None))
        places = [place for place in places if place not in (named, *further)]
    else:
        places = []
    if places:
        parts.append(say("other points, perhaps of the same fault: {lines}", lines=_first_of(places)))
    return " · ".join(parts)


def _first_of(places: Sequence[str]) -> str:
    """The first of several places, and how many there are beyond them."""
    more = f" +{len(places) - FURTHER}" if len(places) > FURTHER else ""
    return ", ".join(map(one_line, places[:FURTHER])) + more


def _left_out(result: CheckResult, *, saved: bool) -> str:
    """How much is said behind ``-v``, by kind; '' where nothing is."""
    counts = {
        "warnings": sum(len(stage.warnings) for stage in result.stages),
        "notes": sum(len(stage.notes) for stage in result.stages),
        "tables": sum(len(stage.tables) for stage in result.stages),
        "causes": sum(max(len(stage.findings) - 1, 0) for stage in result.stages),
        "values that differ": sum(len(stage.wrong) for stage in result.stages if stage.verdict != ERROR),
    }
    told = text.counted(counts)
    if not told:
        return ""
    if saved:
        return say("-v shows {what}, and arguments; report.json has all", what=told)
    return say("-v shows {what}, and arguments; --json prints all", what=told)
