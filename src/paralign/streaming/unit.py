"""One unit of a streamed check: the model without its blocks, or one block.

The ordinary stages run it, in processes of its own.
"""

from __future__ import annotations

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from paralign import __version__
from paralign.capture import Capture
from paralign.checking import run_stages, sides
from paralign.errors import CaptureFormatError
from paralign.model import ERROR, SCHEMA, StageResult
from paralign.run.process import environment
from paralign.run.recorder import interpreter, own_code
from paralign.streaming import kept_unit
from paralign.worker.passes.blockwise import SHELL
from paralign.worker.process import variables
from paralign.worker.process.files import fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from paralign.context import Context
    from paralign.run.project import Project
    from paralign.run.recorder import Interpreter
    from paralign.weights import Plan

#: what is run of each unit
STAGES = ["weights", "forward"]

#: the names of the two sides
SIDES = ("reference", "candidate")


@dataclass(frozen=True)
class Unit:
    """A unit: its path on each side, its title, and the capture of its inputs."""

    paths: tuple[str, str]
    title: str
    inputs: Capture

    @property
    def prefixes(self) -> tuple[str, str]:
        """What its tensors' names begin with in each side's checkpoint."""
        return ("", "") if self.paths[0] == SHELL else (f"{self.paths[0]}.", f"{self.paths[1]}.")


@dataclass
class Outcome:
    """What a unit came to.

    ``plan``: how its tensors correspond, None where they do not; ``state``: the folder of the candidate's. ``used``: path -> fingerprint
    of the files behind it. ``reused``: by a check that was cut short.
    """

    stages: list[StageResult] = field(default_factory=list)
    preflight: list[str] = field(default_factory=list)
    reference: dict[str, Any] = field(default_factory=dict)
    candidate: dict[str, Any] = field(default_factory=dict)
    plan: Plan | None = None
    state: str = ""
    used: dict[str, str] = field(default_factory=dict)
    reused: bool = False


class Units:
    """Checks units of a project, and ends what is under way when it is told to.

    Args:
        project: with ``[model] streaming = true``.
        folder: the output folder.
        fresh: take nothing that was kept.
        lock: of the output folder.
    """

    def __init__(self, project: Project, folder: Path, *, fresh: bool, lock: Path) -> None:
        self._project, self._folder, self._fresh, self._lock = project, folder, fresh, lock
        self._interpreters = [interpreter(side.python, environment(side)) for side in (project.reference, project.candidate)]
        self._under_way: list[Context] = []
        self._ended = False

    def folder_of(self, unit: Unit) -> Path:
        """Where a unit's captures and logs lie."""
        return self._folder / "units" / unit.paths[0]

    def end(self) -> None:
        """End the processes of all units that are under way."""
        self._ended = True
        for context in self._under_way:
            context.reference.close()
            context.candidate.close()

    def check(self, unit: Unit) -> Outcome:
        """What a unit comes to, or came to in a check that was cut short."""
        folder = self.folder_of(unit)
        for inner in ("workers", "captures"):
            (folder / inner).mkdir(parents=True, exist_ok=True)
        key = _key(self._project, unit, self._interpreters)
        earlier = None if self._fresh else _earlier(folder, key, self._interpreters)
        if earlier is not None:
            earlier.reused = True
            return earlier
        kept_unit.forget(folder)
        outcome = self._checked(unit, folder)
        if not self._ended and all(stage.verdict != ERROR for stage in outcome.stages):
            kept_unit.write(folder, key, [getattr(outcome, name) for name in _KEPT])
        return outcome

    def _checked(self, unit: Unit, folder: Path) -> Outcome:
        project = self._project
        narrowed = replace(
            project,
            reference=replace(project.reference, unit=unit.paths[0], blocks=project.streaming.blocks),
            candidate=replace(project.candidate, unit=unit.paths[1], blocks=project.streaming.blocks, checkpoint=None),
        )
        with sides(narrowed, folder, fresh=self._fresh, lock=self._lock) as context:
            self._under_way.append(context)
            if self._ended:
                self.end()
            found = run_stages(context, STAGES, lambda _: None, lambda: (unit.inputs, None), None)
            self._under_way.remove(context)
            outcome = Outcome(found.stages, found.preflight, found.reference, found.candidate)
            if context.plan is not None and "weights" in context.artifacts:
                outcome.plan, outcome.state = context.plan, str(context.artifacts["weights"][1].path)
            own = f"{self._folder / 'captures'}/"  # what the unit is called with: its key tells
            for files in context.used.values():
                outcome.used.update({path: known for path, known in files.items() if not path.startswith(own)})
        return outcome


#: what is kept of an outcome
_KEPT = ("stages", "preflight", "reference", "candidate", "plan", "state", "used")


def _key(project: Project, unit: Unit, interpreters: list[Interpreter]) -> str:
    """What an outcome is known by, beside the files that it depended on."""
    settings = project.settings
    text = [
        *(
            SCHEMA,
            __version__,
            own_code(),
            project.path.read_text(encoding="utf-8"),
            str(project.path),
            settings.strict,
            repr(settings.rules),
        ),
        *(unit.paths, unit.inputs.manifest.settings.get("key", ""), [each.installed for each in interpreters]),
    ]
    return hashlib.sha256(json.dumps(text).encode()).hexdigest()


def _earlier(folder: Path, key: str, interpreters: list[Interpreter]) -> Outcome | None:
    """What an earlier check has kept, if nothing that it depended on has changed since."""
    found = kept_unit.read(folder, key)
    if not isinstance(found, list) or len(found) != len(_KEPT):
        return None
    outcome = Outcome(**dict(zip(_KEPT, found, strict=True)))
    if any(fingerprint(path) != known for path, known in outcome.used.items()):
        return None
    if all(_holds(folder / "captures" / side, each) for side, each in zip(SIDES, interpreters, strict=True)):
        return outcome
    return None


def _holds(captures: Path, now: Interpreter) -> bool:
    """Whether a side's captures are there, made with the environment variables of now."""
    names = sorted(path.parent for path in captures.glob("*/manifest.json"))
    try:
        found = [Capture.open(path) for path in names]
    except CaptureFormatError:
        return False
    recorded = [capture.manifest.variables for capture in found if capture.manifest.variables]  # others were written here, by no side
    if not recorded:
        return False
    return not any(variables.changed(known, now.variables) for known in recorded)


def check_all(units: Units, wanted: list[Unit], jobs: int, progress: Callable[[str], None]) -> list[Outcome]:
    """The outcomes of units, so many at a time; interrupted, what is under way is ended."""
    if jobs == 1 or len(wanted) == 1:
        found = []
        for unit in wanted:
            progress(unit.title)
            found.append(units.check(unit))
        return found
    pool = ThreadPoolExecutor(jobs, "paralign-unit")
    try:
        under_way = {pool.submit(units.check, unit): unit for unit in wanted}
        for done in as_completed(under_way):
            done.result()
            progress(under_way[done].title)
    except BaseException:
        units.end()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    return [done.result() for done in under_way]
