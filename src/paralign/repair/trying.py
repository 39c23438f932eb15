"""The search for a patch: proposals tried one after the other.

A first one is checked whole, then the next fault is taken, until nothing is left.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from itertools import takewhile
from typing import TYPE_CHECKING

from paralign.errors import UsageError, WorkerFailed
from paralign.model import ALIGNED, DIVERGED, ERROR, Divergence, Finding, LineProposal, Point
from paralign.repair import elsewhere, other_setting, sieve, trial_room
from paralign.repair.clipping_edits import alters_clipping
from paralign.repair.edited_settings import is_valid
from paralign.repair.edited_source import Text, Unreadable, line_of, unified
from paralign.repair.fault_sites import Library, imported_files, sites
from paralign.repair.fresh_inputs import LARGE, LIKE
from paralign.repair.ranking import ranked
from paralign.repair.settings_read import files_read
from paralign.repair.train_mode import differs_in_train_mode
from paralign.repair.trial_room import aligned, of
from paralign.stages.steps.looped_clipping import LOOPED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from paralign.model import CheckResult, StageResult
    from paralign.repair.edited_settings import Settings
    from paralign.repair.edited_source import Source
    from paralign.repair.proposals import Proposal
    from paralign.repair.trial_room import Room
    from paralign.run.project import Project, SideSettings

#: faults that are repaired one after the other, at most
FAULTS = 8

#: seconds that checking a patch whole takes at least: what is left must suffice before a trial is begun
LEAST = 3.0

#: points of a stage whose statements are edited: further ones are mostly consequences
POINTS = 2

#: proposals of the named statements that are tried before others are thought of, and what others lose against those that are left
NAMED, AWAY = 16, 0.5

#: edits of settings that may be tried among those of the named statements, and what they weigh at least
EARLY, STRONG = 6, 1.8

#: shares of the time that is left in which others are thought of, and edits of settings
THOUGHT, ON_SETTINGS = 0.3, 0.1

#: how an id of a kind of edit stands in reports
RULE = "repair/"

#: trials of a stage before edits that mend a part of it are taken up, and of those how many
PATIENCE, PARTS = 24, 3

#: trials of a stage that are made in full; before further ones a quick look is taken at each edit
UNSIFTED = 12

#: what making a quick look costs, in trials
RUNS = 3

#: stages that fresh inputs say something about
ON_INPUTS = ("forward", "backward")


@dataclass
class Repaired:
    """What a repair came to.

    Args:
        patch: a unified diff of all proven edits; empty without one.
        findings: stage and finding of each, in the order in which they were proven.
        points: stage and place of each, in the user's files as they were.
        before: path -> content of each edited file as it was.
        after: path -> content with all edits.
        verdict: of the check with all of them.
        trials: how often the candidate was run.
        tried: stage -> proposals that were tried there in vain.
        out_of_time: the time box ended before the proposals did.
    """

    patch: bytes = b""
    findings: list[tuple[str, Finding]] = field(default_factory=list)
    points: list[tuple[str, Divergence]] = field(default_factory=list)
    before: dict[Path, bytes] = field(default_factory=dict)
    after: dict[Path, bytes] = field(default_factory=dict)
    verdict: str = DIVERGED
    trials: int = 0
    tried: dict[str, int] = field(default_factory=dict)
    out_of_time: bool = False


@dataclass(frozen=True)
class Step:
    """One proposed edit, and the content of all edited files with it and those before it."""

    proposal: Proposal
    edited: dict[Path, bytes]


@dataclass
class _Search:
    """One repair under way.

    ``state`` is the result of the last whole check, ``edited`` the content with the proven edits.
    """

    project: Project
    room: Room
    stages: list[str]
    state: CheckResult
    progress: Callable[[str], None]
    edited: dict[Path, bytes] = field(default_factory=dict)
    done: Repaired = field(default_factory=Repaired)


def repair(project: Project, result: CheckResult, out: Path, seconds: float, progress: Callable[[str], None] = lambda _: None) -> Repaired:
    """Look for edits of one statement each that make what diverged aligned.

    Nothing of the user's is changed.

    Args:
        project: what was checked.
        result: what the check came to; every proven edit becomes a finding of its stage.
        out: the output folder.
        seconds: the time box.
        progress: called with a line for every step.
    """
    if not any(stage.verdict == DIVERGED for stage in result.stages):
        return Repaired(verdict=result.verdict)
    with trial_room.opened(project, out, seconds, str(result.candidate.get("framework", ""))) as room:
        search = _Search(project, room, [stage.name for stage in result.stages], result, progress)
        search.done.verdict = result.verdict
        while len(search.done.findings) < FAULTS and _next(search):
            pass
        search.done.trials = room.trials
    done = search.done
    done.after = search.edited
    for name, finding in reversed(done.findings):  # the first one stays the first: later patches are made on top of it
        of(result, name).findings.insert(0, finding)
    for name, point in reversed(done.points):
        _lead(of(result, name), point)
    done.patch = b"".join(_diff(project, path, done.before[path], content) for path, content in sorted(done.after.items()))
    return done


def _next(search: _Search) -> bool:
    """Repair the first stage that diverges and can be; False where none can."""
    for stage in search.state.stages:
        if stage.verdict != DIVERGED or stage.name in search.done.tried:
            continue
        if _repaired(search, stage):
            search.done.tried.clear()
            return search.state.verdict == DIVERGED
        if search.done.out_of_time:
            return False
    return False


def _repaired(search: _Search, stage: StageResult) -> bool:
    """Try the proposals of a stage's points; whether one was proven."""
    tried = 0
    parts: list[Proposal] = []
    quick: sieve.Sieve | None = None
    began = time.monotonic()
    for proposal in _proposals(search, stage):
        if search.room.left < LEAST:
            search.done.out_of_time = True
            break
        if tried == PATIENCE and _in_parts(search, stage, parts):
            return True
        if tried == UNSIFTED and search.room.left > LEAST + RUNS * (time.monotonic() - began) / tried:
            quick = _sieve(search, stage)
        tried += 1
        search.progress(f"repair: {stage.name}, trial {search.room.trials + 1}")
        edited = {**search.edited, proposal.edit.path: proposal.edit.applied()}
        if quick is not None and (not quick.passes(search.room, edited) or search.room.left < LEAST):
            continue
        try:
            result = search.room.run(edited, [stage.name])
            if aligned(result, stage.name) and _kept(search, stage, [Step(proposal, edited)]):
                return True
        except (UsageError, WorkerFailed):  # an edit may break the program: then it is none that helps
            continue
        if _may_mend_a_part(stage, of(result, stage.name)):
            parts.append(proposal)
    if tried <= PATIENCE and not search.done.out_of_time and _in_parts(search, stage, parts):
        return True
    search.done.tried[stage.name] = tried
    return False


def _sieve(search: _Search, stage: StageResult) -> sieve.Sieve | None:
    """What tells quickly that an edit does not mend a stage."""
    try:
        return sieve.made(search.room, search.edited, stage.name)
    except (UsageError, WorkerFailed):
        return None


def _may_mend_a_part(before: StageResult, after: StageResult) -> bool:
    """Whether an edit may have undone one of several faults.

    Fewer values differ, or several points are known and the values changed.
    """
    if after.verdict != DIVERGED or after.failure is not None:
        return False
    asked = {pair.key for pair in after.pairs}  # a trial asks for less than a check
    wrong, left = ({pair.key for pair in stage.wrong} & asked for stage in (before, after))
    if left < wrong:
        return True
    several = len({_line_of(each) for each in before.divergences if each.confirmed} - {None}) > 1
    errors = [stage.worst.error if stage.worst is not None else None for stage in (before, after)]
    return several and left == wrong and errors[0] != errors[1]


def _in_parts(search: _Search, stage: StageResult, parts: list[Proposal]) -> bool:
    """Take up edits that undo the first of two faults, and look for the second.

    Gives whether both together were proven.
    """
    for proposal in parts[:PARTS]:
        if search.room.left < LEAST:
            search.done.out_of_time = True
            return False
        edited = {**search.edited, proposal.edit.path: proposal.edit.applied()}
        search.progress(f"repair: {stage.name}, a second fault is looked for")
        try:
            state = search.room.run(edited, [stage.name], located=True)
        except (UsageError, WorkerFailed):
            continue
        rest = of(state, stage.name)
        if rest.verdict == DIVERGED and _is_gone(search, stage, rest) and _second(search, stage, rest, Step(proposal, edited)):
            return True
    return False


def _is_gone(search: _Search, before: StageResult, after: StageResult) -> bool:
    """Whether the first fault is no longer there, and none that was not there before."""
    if {pair.key for pair in after.wrong} < {pair.key for pair in before.wrong}:
        return True
    known = {_line_of(_of_user(search, each)) for each in before.divergences}
    left = {_line_of(_of_user(search, each)) for each in after.divergences}
    first = _line_of(_of_user(search, before.divergences[0])) if before.divergences else None
    return bool(left) and first not in left and left <= known


def _second(search: _Search, stage: StageResult, rest: StageResult, first: Step) -> bool:
    """Try edits of what is left of a stage; gives whether one was proven with the first.

    Neither may be without effect.
    """
    inner = _Search(search.project, search.room, search.stages, search.state, search.progress, first.edited, search.done)
    for number, proposal in enumerate(_proposals(inner, rest)):
        if search.room.left < LEAST or number == PATIENCE:
            search.done.out_of_time |= search.room.left < LEAST
            return False
        content = proposal.edit.applied()
        edited = {**first.edited, proposal.edit.path: content}
        if content == search.done.before.get(proposal.edit.path):
            continue  # the first edit undone
        try:
            if not aligned(search.room.run(edited, [stage.name]), stage.name):
                continue
            alone = _without_first(search, first.proposal, proposal)
            needless = alone is not None and aligned(search.room.run(alone.edited, [stage.name]), stage.name)
            steps = [alone] if alone is not None and needless else [first, Step(proposal, edited)]
            if _kept(search, stage, steps):
                return True
        except (UsageError, WorkerFailed):
            continue
    return False


def _without_first(search: _Search, first: Proposal, second: Proposal) -> Step | None:
    """The second of two edits alone, on what the first was made of.

    None where it changes what the first brought in.
    """
    edit = second.edit
    if edit.path != first.edit.path:
        return Step(second, {**search.edited, edit.path: edit.applied()})
    start, end = first.edit.start, first.edit.start + len(first.edit.text)
    moved = 0
    if edit.start >= end:
        moved = len(first.edit.text) - (first.edit.end - first.edit.start)
    elif edit.end > start:
        return None
    alone = replace(edit, before=first.edit.before, start=edit.start - moved, end=edit.end - moved)
    return Step(replace(second, edit=alone), {**search.edited, edit.path: alone.applied()})


def _line_of(divergence: Divergence) -> str | None:
    return divergence.candidate.source if divergence.candidate is not None else None


def _proposals(search: _Search, stage: StageResult) -> Iterator[Proposal]:
    """The proposals of all statements that a stage's points name, the likeliest first."""
    library = Library(search.edited, search.project.candidate.root.resolve())
    project = search.project
    roots = project.reference.root.resolve(), project.candidate.root.resolve()
    framework = str(search.state.candidate.get("framework", ""))
    found: list[Proposal] = []
    shared = {path.resolve() for path in imported_files(roots[0], project.reference.module)}  # an edit there is one of the reference too
    read = files_read(search.room.reference)
    for number, divergence in enumerate(stage.divergences[:POINTS]):
        own = _of_user(search, divergence)
        for place, site in enumerate(sites(own, library, roots, project.reference.module, framework)):
            if not search.room.copy.holds(site.source.path) or site.source.path in shared or read.has(site.source.path):
                continue
            _keep(search, site.source)
            found += [_lower(each, 0.6 * place + 0.8 * number) for each in ranked(site)]
    settings = _settings(search, stage, library)
    early = [each for each in settings[:EARLY] if each.weight >= STRONG]
    found = sorted(found + early, key=lambda each: -each.weight)
    seen: set[bytes] = set()
    yield from _allowed(stage, _new(found[:NAMED], seen))
    away = settings[len(early) :] + _elsewhere(search, stage, library)
    rest = found[NAMED:] + [_lower(each, AWAY) for each in away]
    yield from _allowed(stage, _new(sorted(rest, key=lambda each: -each.weight), seen))


def _allowed(stage: StageResult, proposals: Iterator[Proposal]) -> Iterator[Proposal]:
    """The proposals without those that would make the port worse.

    One side may clip in its loop, which the stage did not run: without the other optimizer's clipping both would agree.
    """
    if not any(finding.rule == LOOPED for finding in stage.findings):
        return proposals
    return (each for each in proposals if not alters_clipping(each.edit))


def _new(found: list[Proposal], seen: set[bytes]) -> Iterator[Proposal]:
    """Proposals whose result was not given before, and is what the file's name says."""
    for proposal in found:
        try:
            content = proposal.edit.applied()
        except Unreadable:  # a letter that the file's encoding does not have
            continue
        if content in seen or not is_valid(proposal.edit.path, content):
            continue
        seen.add(content)
        yield proposal


def _keep(search: _Search, file: Text) -> None:
    """Note a file as it is that may be edited, unless an edit of it is proven."""
    if file.path not in search.edited:
        search.room.keep(file.path, file.content)
        search.done.before.setdefault(file.path, file.content)


def _sources(search: _Search, library: Library) -> tuple[list[Source], list[Source]]:
    """The Python files of the reference, and the candidate's that may be edited."""
    theirs, own = (_imported(side, library) for side in (search.project.reference, search.project.candidate))
    shared, read = {source.path for source in theirs}, files_read(search.room.reference)
    editable = []
    for source in own:
        is_own = source.path not in shared and not read.has(source.path)
        if is_own and search.room.copy.holds(source.path):
            editable.append(source)
    return theirs, editable


def _imported(side: SideSettings, library: Library) -> list[Source]:
    """The sources that a side's module imports from its root."""
    paths = imported_files(side.root.resolve(), side.module)
    found = [library.source(path.resolve()) for path in paths]
    return [source for source in found if source is not None]


def _settings(search: _Search, stage: StageResult, library: Library) -> list[Proposal]:
    """Proposals of the candidate's settings files."""
    files = _files(search, library)
    if not files[1]:
        return []
    for file in files[1]:
        _keep(search, file)
    until = time.monotonic() + search.room.left * ON_SETTINGS
    return other_setting.proposals(stage.name, _doubtful(search, stage), files, _sources(search, library), _points(search, stage), until)


def _files(search: _Search, library: Library) -> tuple[list[Settings], list[Settings]]:
    """The settings files of the reference, and the candidate's that may be edited."""
    read = search.room.copy.settings
    theirs, own = ([file for path in each if (file := library.settings(path)) is not None] for each in (read.theirs, read.own))
    seen = files_read(search.room.reference)
    return theirs, [file for file in own if search.room.copy.holds(file.path) and not seen.has(file.path)]


def _elsewhere(search: _Search, stage: StageResult, library: Library) -> list[Proposal]:
    """Proposals of statements that no point names."""
    theirs, own = _sources(search, library)
    for source in own:
        _keep(search, source)
    until = time.monotonic() + search.room.left * THOUGHT
    framework = str(search.state.candidate.get("framework", ""))
    files = _files(search, library)
    return elsewhere.proposals(stage.name, _doubtful(search, stage), (theirs, own), framework, _points(search, stage), until, files)


def _doubtful(search: _Search, stage: StageResult) -> list[str]:
    """Stages before one that are not known to be right."""
    return [each.name for each in takewhile(lambda each: each.name != stage.name, search.state.stages) if each.verdict != ALIGNED]


def _points(search: _Search, stage: StageResult) -> list[Divergence]:
    return [_of_user(search, each) for each in stage.divergences[:POINTS]]


def _lower(proposal: Proposal, by: float) -> Proposal:
    return replace(proposal, weight=proposal.weight - by)


def _of_user(search: _Search, divergence: Divergence) -> Divergence:
    """A point of a trial with the user's paths in place of the copy's."""

    def told(point: Point | None) -> Point | None:
        if point is None:
            return None
        source = search.room.copy.outside(point.source) if point.source else point.source
        return replace(point, source=source, lines=[search.room.copy.outside(line) for line in point.lines])

    return replace(divergence, candidate=told(divergence.candidate), reference=told(divergence.reference))


def _kept(search: _Search, stage: StageResult, steps: list[Step]) -> bool:
    """Check edits whole, in all stages and on fresh inputs; keep them where they hold.

    Args:
        search: the repair under way.
        stage: that they are to align.
        steps: one edit, or two that undo two faults of it; the last has them all.
    """
    if _is_of_both(search, steps):
        return False
    search.progress(f"repair: {stage.name}, the patch is checked in all stages")
    edited = steps[-1].edited
    whole = search.room.run(edited, search.stages, located=True)
    if not aligned(whole, stage.name) or _worse(search.state, whole) or not _holds_afresh(search, stage.name, edited, whole):
        return False
    if _is_of_both(search, steps):  # other stages of the reference may read further files
        return False
    before = {each.name: each.verdict for each in search.state.stages}
    gone = [each.name for each in whole.stages if before.get(each.name) == DIVERGED and each.verdict == ALIGNED]
    stays = [each.name for each in whole.stages if each.verdict in (DIVERGED, ERROR)]
    for step in steps:
        others = [_place(search.project, each.proposal) for each in steps if each is not step]
        finding = _told(search, stage, step.proposal, _after(whole, stage.name), others)
        finding.gone, finding.stays = [name for name in gone if name != stage.name], stays
        search.done.findings.append((stage.name, finding))
        search.done.points.append((stage.name, _point(search, step.proposal)))
    search.edited = edited
    search.state, search.done.verdict = whole, whole.verdict
    return True


def _is_of_both(search: _Search, steps: list[Step]) -> bool:
    """Whether an edit is in a file that the reference reads too, as far as it has run."""
    read = files_read(search.room.reference)
    return any(read.has(step.proposal.edit.path) for step in steps)


def _told(search: _Search, stage: StageResult, proposal: Proposal, error_after: float | None, others: list[str]) -> Finding:
    """A proven edit as a finding.

    ``others`` are the places of edits without which it proves nothing.
    """
    place = _place(search.project, proposal)
    joined = (f", together with the edit at {', '.join(others)}", f"，须与 {', '.join(others)} 处的修改一起") if others else ("", "")  # noqa: RUF001 - Chinese
    return Finding(
        f"{RULE}{proposal.rule}",
        proposal.cause.en,
        f"{proposal.fix.en} at {place}{joined[0]}",
        proven=True,
        error_before=stage.worst.error if stage.worst is not None else None,
        error_after=error_after,
        patch=_text_of(search.project, proposal),
        cause_zh=proposal.cause.zh,
        fix_zh=f"{proposal.fix.zh}（{place}）{joined[1]}",  # noqa: RUF001 - Chinese
        together=others,
    )


def _point(search: _Search, proposal: Proposal) -> Divergence:
    """The line of a proven edit, in the file as the user has it, as a point."""
    edit = proposal.edit
    changed, now = edit.applied(), edit.before
    first = next((at for at, both in enumerate(zip(now, changed, strict=False)) if both[0] != both[1]), min(len(now), len(changed)))
    line = line_of(now, first)
    lines = [re.split(rb"\r\n|\r|\n", content) for content in (search.done.before.get(edit.path, now), now)]
    blocks = SequenceMatcher(None, lines[0], lines[1], autojunk=False).get_matching_blocks()
    at = next((line + each.a - each.b for each in blocks if each.b < line <= each.b + each.size), min(line, len(lines[0])))
    code = lines[0][at - 1].decode("utf-8", "replace").strip() if 0 < at <= len(lines[0]) else None
    rule, source = f"{RULE}{proposal.rule}", f"{edit.path}:{at}"
    return Divergence(None, Point("", "", source, code), confirmed=True, rule=rule, proposals=[LineProposal(rule, source)])


def _lead(stage: StageResult, point: Divergence) -> None:
    """Put the place of a proven edit first, unless it is what the first point names already.

    What is known of the former first point stays: the values, the errors, the reference's line.
    """
    first = stage.divergences[0] if stage.divergences else None
    if first is None or point.candidate is None:
        stage.divergences.insert(0, point)
        stage.divergence = point
        return
    if first.candidate is not None and first.candidate.source == point.candidate.source:
        first.confirmed = True
        return
    named = replace(point.candidate, name=first.candidate.name, op=first.candidate.op) if first.candidate is not None else point.candidate
    lines = [first.candidate.source] if first.candidate is not None and first.candidate.source else []
    led = replace(first, candidate=replace(named, lines=lines), confirmed=True, rule=point.rule, region=[], chain=[], value=None)
    led.proposals = [*point.proposals, *first.proposals]
    stage.divergences.insert(0, led)
    stage.divergence = led


def _place(project: Project, proposal: Proposal) -> str:
    """Where an edit is, as ``file:line``."""
    return f"{_shown(project, proposal.edit.path)}:{_line(proposal)}"


def _worse(before: CheckResult, after: CheckResult) -> bool:
    """Whether a stage that was aligned is no longer, or one fails."""
    known = {each.name: each.verdict for each in before.stages}
    failed = any(each.verdict == ERROR and known.get(each.name) != ERROR for each in after.stages)
    return failed or any(each.verdict != ALIGNED and known.get(each.name) == ALIGNED for each in after.stages)


def _holds_afresh(search: _Search, stage: str, edited: dict[Path, bytes], whole: CheckResult) -> bool:
    """Whether the model is seen to agree on inputs that did not find the fault.

    In eval and in train mode.

    Inputs that show nothing (the reference fails on them, or the test is too weak) do not count: one kind at least must be aligned.
    A stage that was not aligned on the check's own inputs, because of another fault, is not asked.
    """
    names = [name for name in ON_INPUTS if name in search.stages and of(whole, name).verdict == ALIGNED]
    if not names or (stage not in ON_INPUTS and stage != "loss"):
        return True
    shown = False
    for inputs in (LIKE, LARGE):
        try:
            fresh = search.room.run(edited, names, inputs=inputs)
        except (UsageError, WorkerFailed):
            return False
        failed = [each.failure for each in fresh.stages if each.failure is not None]
        if any(failure["side"] == "candidate" for failure in failed) and not any(f["side"] == "reference" for f in failed):
            return False
        if any(each.verdict == DIVERGED for each in fresh.stages):
            return False
        shown = shown or all(each.verdict == ALIGNED for each in fresh.stages)
    trained = "backward" in names and "train" in search.project.settings.modes
    if not shown or trained or "forward" not in names:
        return shown
    return not differs_in_train_mode(search.room, edited)


def _after(result: CheckResult, stage: str) -> float | None:
    worst = of(result, stage).worst
    return worst.error if worst is not None else None


def _line(proposal: Proposal) -> int:
    return Text(proposal.edit.path, proposal.edit.before).line_at(proposal.edit.start)


def _shown(project: Project, path: Path) -> str:
    """A path from the project's folder, where it lies below."""
    folder = project.folder.resolve()
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.as_posix()


def _diff(project: Project, path: Path, before: bytes, after: bytes) -> bytes:
    return unified(_shown(project, path).lstrip("/"), before, after) if before != after else b""


def _text_of(project: Project, proposal: Proposal) -> str:
    file = Text(proposal.edit.path, proposal.edit.before)
    return _diff(project, file.path, file.content, proposal.edit.applied()).decode(file.encoding, "backslashreplace")
