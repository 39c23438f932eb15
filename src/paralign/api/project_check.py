"""A check of the port that a project file describes, and the repair of it."""

from __future__ import annotations

import shlex
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from paralign import streaming
from paralign.api.arguments import rules_of
from paralign.api.output_folder import make_folders
from paralign.capture.bounds import checked_path
from paralign.checking import given_tensors, run_stages, sides
from paralign.errors import UsageError, message_of, one_line
from paralign.model import DIVERGED
from paralign.progress import kept
from paralign.repair import applying, trying
from paralign.repair.trying import Repaired
from paralign.report import artifacts, notebook, page, pictures
from paralign.run import retention
from paralign.run.locking import locked
from paralign.run.process import sweep
from paralign.run.profiling import Watch
from paralign.run.project import check_stages, read
from paralign.run.recorder import Outdated

if TYPE_CHECKING:
    from collections.abc import Callable

    from paralign.context import Context
    from paralign.model import CheckResult
    from paralign.run.project import Project

#: recordings of the reference that a preflight line names; a check of all stages takes some thirty
REUSED = 6

#: runs of what diverges that the time for edits must allow where nobody asked for them
RUNS = 2


@dataclass
class Mended:
    """A check, the output folder, and what a repair came to (docs/repair.md)."""

    result: CheckResult
    folder: Path
    repaired: Repaired


def check_project(
    directory: str | Path,
    stages: list[str] | None = None,
    *,
    out: str | Path | None = None,
    fresh: bool = False,
    strict: bool = False,
    profile: bool = False,
    progress: Callable[[str], None] | None = None,
    repair: float | None = None,
    unless_told: float = 0.0,
) -> tuple[CheckResult, Path]:
    """Check the port that a project file describes, each side in its own interpreter.

    Args:
        directory: the folder of ``paralign.toml``.
        stages: names of stages; None for those of the project file.
        out: output folder; None for the project file's.
        fresh: run the reference again although nothing has changed.
        strict: let inherent differences between frameworks diverge.
        profile: look at where the time goes; the result's ``profile`` says it.
        progress: called with a line for every step.
        repair: seconds in which edits of what diverges are tried; None for those of the project file.
        unless_told: the seconds where the project file says nothing either.

    Returns:
        The result and the folder that holds ``report.json`` and the guides' files.

    Raises:
        UsageError: the project file or a stage is wrong.
        EnvironmentUnavailable: an interpreter is not there.
    """
    done = repair_project(
        directory, stages, out=out, fresh=fresh, strict=strict, profile=profile, progress=progress, seconds=repair, unless_told=unless_told
    )
    return done.result, done.folder


def repair_project(
    directory: str | Path,
    stages: list[str] | None = None,
    *,
    out: str | Path | None = None,
    fresh: bool = False,
    strict: bool = False,
    profile: bool = False,
    progress: Callable[[str], None] | None = None,
    seconds: float | None = None,
    unless_told: float = 0.0,
) -> Mended:
    """Check a project, and try edits of the candidate that make what diverges aligned.

    The user's files are not changed.

    Arguments as in :func:`check_project`; ``seconds``: its ``repair``.
    """
    project = read(Path(directory))
    project.settings.strict, project.settings.rules = strict, rules_of(project.rules)
    names = check_stages(stages) if stages else project.stages
    _check_paths(project, names)
    folder = Path(out).resolve() if out is not None else project.out.resolve()
    make_folders(folder, "workers", "captures")
    with locked(folder) as lock, notebook.under_way(progress, names) as told:
        sweep(folder / "workers")
        artifacts.invalidate(folder, names)
        applying.remove_patch(folder)
        kept.invalidate(folder, names, project.settings)
        begun = kept.basis(project, names)
        try:
            result, context = _checked(project, names, folder, told, fresh=fresh, lock=lock, profile=profile)
        except Outdated as reason:
            told("the reference again, from the start")
            result, context = _checked(project, names, folder, told, fresh=True, lock=lock, profile=profile)
            result.preflight.append(f"nothing was reused from an earlier run: {reason} (it keeps something between its runs)")
        result.command = _command(project, stages, out, strict=strict)
        asked = seconds if seconds is not None else project.repair
        limit = unless_told if asked is None else asked
        if limit > 0 and project.streaming.streaming:  # a trial would build the models whole
            limit = 0.0
        if asked and project.streaming.streaming:
            result.preflight.append("no repair was tried: the models are streamed, block by block")
        if asked is None and limit > 0 and (slow := _slowness(result)) > limit / RUNS:
            limit = 0.0
            result.preflight.append(f"no edit was tried: a run of what diverges takes {slow:.0f} s; `paralign repair` takes its time")
        repaired = Repaired(verdict=result.verdict)
        if limit > 0:
            _write(project, result, context, folder)  # what the check came to stays, whatever becomes of the search
            repaired = _repaired(project, result, folder, limit, told, asked=asked is not None)
        applying.write_patch(folder, repaired)
        _write(project, result, context, folder)
        kept.write(folder, project, result, begun, context.used, strict=strict)
        page.write(folder, result, project.folder, context.artifacts)
        if project.settings.keep == "needed" and not project.streaming.streaming:
            retention.settle(folder / "captures", result, context.reference.asked)
    return Mended(result, folder, repaired)


def _check_paths(project: Project, names: list[str]) -> None:
    """Refuse paths to predict from that are not there, before anything is run.

    Raises:
        UsageError: one is not there.
    """
    for path in project.settings.paths if "infer" in names else ():
        if not checked_path(path).exists():
            raise UsageError(
                "a path to predict from is not there",
                where=f"{project.path}: [infer] paths: {path}",
                hint="set [infer] paths to files that exist, relative to paralign.toml",
            )


def _slowness(result: CheckResult) -> float:
    """Seconds that both sides took for the first stage that diverges; 0 where none does.

    The stage's total has them too, and the search for its lines, which a trial does without.
    """
    first = next((stage.seconds for stage in result.stages if stage.verdict == DIVERGED), {})
    return sum(spent for part, spent in first.items() if part != "total")


def _repaired(project: Project, result: CheckResult, folder: Path, seconds: float, told: Callable[[str], None], *, asked: bool) -> Repaired:
    """Try edits.

    Where nobody asked for them, a search that fails or does not end in time is only told.
    """
    try:
        repaired = trying.repair(project, result, folder, seconds, told)
    except Exception as error:  # whatever goes wrong in it, the check is concluded
        if asked:
            raise
        result.preflight.append(f"edits could not be tried: {one_line(message_of(error))}")
        return Repaired(verdict=result.verdict)
    if repaired.out_of_time and not repaired.findings:
        if asked:
            result.preflight.append(f"no patch was found in {seconds:.0f} s, and not all edits were tried: more seconds try more")
        else:
            result.preflight.append(
                f"no patch was found in {seconds:.0f} s, and not all edits were tried: `paralign repair` takes its time"
            )
    return repaired


def durations(directory: str | Path, stages: list[str] | None = None, out: str | Path | None = None) -> dict[str, float | None]:
    """How many seconds each stage of a check took last time, in the order in which they run.

    None where that is not known.

    Raises:
        UsageError: the project file or a stage is wrong.
    """
    project = read(Path(directory))
    folder = Path(out) if out is not None else project.out
    return {name: kept.seconds(folder, name) for name in (check_stages(stages) if stages else project.stages)}


def _checked(
    project: Project, names: list[str], folder: Path, progress: Callable[[str], None], *, fresh: bool, lock: Path, profile: bool
) -> tuple[CheckResult, Context]:
    """The stages of a project.

    Raises:
        Outdated: captures of the reference that were reused are not what it computes now; never with ``fresh``.
    """
    with nullcontext() if not profile else Watch() as watch, sides(project, folder, fresh=fresh, lock=lock) as context:
        if project.streaming.streaming:
            result, files = streaming.check(project, folder, names, fresh=fresh, lock=lock, progress=progress)
            context.used = dict.fromkeys(names, files)
        else:
            result = run_stages(context, names, progress, lambda: given_tensors(project, context, folder), None)
        if context.reference.reused:
            names_reused = sorted(context.reference.reused)
            reused = ", ".join(names_reused[:REUSED])
            if len(names_reused) > REUSED:
                reused += f" and {len(names_reused) - REUSED} more"
            result.preflight.append(f"reused from an earlier run of the reference: {reused} (--fresh runs it again)")
        if context.reference.unseen:
            why = ", ".join(sorted(context.reference.unseen))
            result.preflight.append(f"captures of the reference are not reused by later checks: it {why}, which may read files unseen")
    if watch is not None:
        own = () if project.streaming.streaming else (context.reference, context.candidate)  # streamed blocks have recorders of their own
        result.profile = watch.result({side.side: side.spent for side in own}, context.confirmed_at)
    return result, context


def _write(project: Project, result: CheckResult, context: Context, folder: Path) -> None:
    """Write the results of a check into its output folder."""
    settings = project.settings
    pictures.draw(result, context.artifacts, folder, settings.pictures)
    naming, given = artifacts.Naming(settings.names), artifacts.Given(None if context.unlabelled else context.labels)
    artifacts.write(result, context.artifacts, folder, settings.diff_threshold, naming, given)


def _command(project: Project, stages: list[str] | None, out: str | Path | None, *, strict: bool) -> str:
    """What makes a check again, from the folder above the project's."""
    words = ["paralign", "check", project.folder.name or ".", *(stages or [])]
    words += ["--strict"] if strict else []
    words += ["--out", str(out)] if out is not None else []
    return shlex.join(words)
