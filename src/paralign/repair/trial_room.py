"""Trials of the edited candidate, in a copy and a process of its own.

The one reference beside it is run once.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from paralign.capture import Capture
from paralign.checking import recorder as recorder_of
from paralign.checking import run_stages
from paralign.context import Context
from paralign.errors import UsageError, WorkerFailed
from paralign.model import ALIGNED, ERROR
from paralign.repair import fresh_inputs, noted_jobs
from paralign.repair.code_copy import copied
from paralign.repair.fault_sites import packages
from paralign.run.process import Process
from paralign.run.standing_process import Standing, can_stand
from paralign.worker.process.sealed import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from paralign.model import CheckResult, StageResult
    from paralign.repair.code_copy import Copy
    from paralign.run.project import Project
    from paralign.run.recorder import Recorder
    from paralign.worker.protocol import Job

#: seconds that a trial is given beyond the end of the time box, so that a last one can end
GRACE = 5.0


def _environment(folder: Path) -> dict[str, str]:
    """Variables of a trial: no caches, and nothing written outside of the copy."""
    return {"PYTHONDONTWRITEBYTECODE": "1", VARIABLE: str(folder), "TMPDIR": str(folder / "temporary")}


@dataclass
class Room:
    """What every trial of a project shares.

    Args:
        project: as the user has it.
        folder: a temporary folder.
        reference: the recorder of the reference; it lives as long as the room.
        copy: of the candidate's code.
        deadline: when the time box ends.
        standing: a process with the candidate's framework imported; None where it cannot be forked.
        given: inputs and labels of the check, and those that were drawn anew, by name.
        trials: how many were run.
    """

    project: Project
    folder: Path
    reference: Recorder
    copy: Copy
    deadline: float
    standing: Standing | None = None
    given: dict[str, tuple[Capture | None, Capture | None]] = field(default_factory=dict)
    trials: int = 0
    _originals: dict[Path, bytes] = field(default_factory=dict)

    @property
    def left(self) -> float:
        """Seconds of the time box that are left."""
        return self.deadline - time.monotonic()

    def run(
        self,
        edited: dict[Path, bytes],
        stages: list[str],
        *,
        located: bool = False,
        inputs: str = "",
        then: Callable[[Context], None] | None = None,
        noted: list[Job] | None = None,
    ) -> CheckResult:
        """Check the candidate with edits, in a new process.

        Args:
            edited: path in the user's folders -> content.
            stages: which.
            located: look for where they diverge, as a check does; else only whether.
            inputs: the name of those to take; '' for the check's own.
            then: what to ask both sides before they end.
            noted: takes the jobs that the candidate did.
        """
        self.trials += 1
        self.copy.write(self._originals | edited)
        project = self._project(located=located)
        candidate = recorder_of(project, "candidate", project.candidate, self.folder, reuse=False, standing=self.standing)
        if noted is not None:
            kept = self.folder / "captures" / f"kept-{self.trials}"
            candidate.start = partial(noted_jobs.Noting, candidate.start, noted, kept)
        try:
            context = Context(self.reference, candidate, project.settings)
            result = run_stages(context, stages, lambda _: None, lambda: self.given_as(inputs, context), None)
            if then is not None:
                then(context)
        finally:
            candidate.close()
        return result

    def sift(self, edited: dict[Path, bytes], jobs: list[Job]) -> dict[str, Capture]:
        """Have some jobs done by the candidate with edits, in a new process.

        Args:
            edited: path in the user's folders -> content.
            jobs: as they were noted by :meth:`run`.

        Returns:
            What they recorded, by the name of the capture.

        Raises:
            WorkerFailed: the candidate failed.
        """
        self.trials += 1
        self.copy.write(self._originals | edited)
        project = self._project(located=False)
        started = recorder_of(project, "candidate", project.candidate, self.folder, reuse=False, standing=self.standing)
        folder = self.folder / "captures" / "sifted"
        noted_jobs.prepared(folder)
        worker = started.start()
        try:
            for job in noted_jobs.moved(jobs, folder):
                if self.left <= 0:
                    raise WorkerFailed("timeout", "the time box has ended", side="candidate")
                if isinstance(worker, Process):
                    worker.timeout = min(project.timeout, max(1.0, self.left))
                worker.request(job)
        finally:
            worker.close()
        return {Path(job.capture).name: Capture.open(folder / Path(job.capture).name) for job in jobs}

    def keep(self, path: Path, content: bytes) -> None:
        """Tell what a file holds without any edit: a trial that does not edit it has it so."""
        self._originals.setdefault(path, content)

    def _project(self, *, located: bool) -> Project:
        """The project with the candidate in the copy, within what the time box has left."""
        project = self.copy.project(self.project)
        timeout = min(project.timeout, max(1.0, self.left) + GRACE)
        settings = replace(project.settings, timeout=min(project.settings.timeout, timeout))
        settings.modules = settings.modules if located else "none"
        settings.verdict_only = not located
        side = replace(project.candidate, env={**project.candidate.env, **_environment(self.folder)})
        return replace(project, candidate=side, timeout=timeout, settings=settings)

    def given_as(self, name: str, context: Context) -> tuple[Capture | None, Capture | None]:
        """Inputs and labels of a name; made on first use."""
        if name not in self.given:
            self.given[name] = fresh_inputs.given(self.project, context, self.folder, name)
        return self.given[name]


@contextmanager
def opened(project: Project, out: Path, seconds: float, framework: str) -> Iterator[Room]:
    """A room for trials of a project; its processes and its folder end with it.

    Args:
        project: as the user has it.
        out: the output folder of the check.
        seconds: the time box.
        framework: of the candidate.
    """
    with tempfile.TemporaryDirectory(prefix="paralign-repair-") as name:
        folder = Path(name).resolve()
        for inner in ("workers", "captures", "temporary"):
            (folder / inner).mkdir()
        reference = recorder_of(project, "reference", project.reference, folder, reuse=False)
        copy = copied(project, folder, out)
        inside, side = copy.project(project), project.candidate
        side = replace(side, env={**side.env, **_environment(folder)})
        log = folder / "workers" / "candidate.log"
        modules = packages(side.root.resolve(), side.module.resolve(), copy.names())
        standing = Standing(side, framework, log, inside.folder, modules) if can_stand(side) else None
        try:
            yield Room(project, folder, reference, copy, time.monotonic() + seconds, standing)
        finally:
            reference.close()
            if standing is not None:
                standing.close()


def aligned(result: CheckResult, stage: str) -> bool:
    """Whether a stage of a trial is aligned, and no other of it failed."""
    return of(result, stage).verdict == ALIGNED and all(each.verdict != ERROR for each in result.stages)


def of(result: CheckResult, stage: str) -> StageResult:
    """A stage of a result.

    Raises:
        UsageError: it was not run.
    """
    found = next((each for each in result.stages if each.name == stage), None)
    if found is None:
        raise UsageError(f"the stage {stage} was not run")
    return found
