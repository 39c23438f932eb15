"""The archive for submission: arrays and logs of the checkpoints.

It is refused where one is missing, diverged or not what a check wrote.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from paralign import __version__
from paralign.capture.bounds import checked_path
from paralign.errors import UsageError, unwritten
from paralign.model import SCHEMA
from paralign.progress.logbook import logbook
from paralign.progress.steps import State, most_pressing
from paralign.report import artifacts
from paralign.worker.process.files import fingerprint

if TYPE_CHECKING:
    from pathlib import Path

    from paralign.progress.steps import StageStatus, Status, StepStatus

#: the folder in the archive
FOLDER = "checkpoints"


@dataclass(frozen=True)
class Member:
    """A file of the archive and where it lies."""

    name: str
    path: Path


@dataclass(frozen=True)
class Problem:
    """Why a checkpoint cannot be packed."""

    checkpoint: int
    step: str
    state: State
    why: str


@dataclass
class Packing:
    """What an archive will hold, and what stands against it."""

    members: list[Member] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @property
    def state(self) -> State:
        """The most pressing state of what stands against it; ``DONE`` where nothing does."""
        return most_pressing([problem.state for problem in self.problems] or [State.DONE])


def plan(status: Status) -> Packing:
    """What the archive of a port will hold; steps that the status leaves out are left out."""
    found = Packing()
    for each in status.checkpoints:
        if each.state is State.LEFT_OUT:
            continue
        if each.state is not State.DONE:
            found.problems.append(Problem(each.step.checkpoint, each.step.number, each.state, each.why or each.state.value))
            continue
        for stage in each.stages:
            _take(found, status, each, stage)
    log = next((each.evidence for each in status.steps if each.evidence is not None and each.evidence.path is not None), None)
    if log is not None and log.path is not None:
        found.members.append(Member(f"training/{log.path.name}", log.path))
    return found


def _take(found: Packing, status: Status, each: StepStatus, stage: StageStatus) -> None:
    """Add the files of one stage, or say which is not as the check wrote it."""
    if stage.stage not in artifacts.FILES or stage.kept is None:
        return
    outputs = stage.kept.outputs
    problems = [
        f"{name} is missing or not as the check wrote it"
        for name, known in outputs.items()
        if fingerprint(str(status.folder / name)) != known
    ]
    if len(outputs) < 3:  # noqa: PLR2004 - two sides and a log
        problems.append(f"the check of {stage.stage} left no arrays: nothing was compared")
    found.problems += [Problem(each.step.checkpoint, each.step.number, State.OPEN, why) for why in problems]
    if not problems:
        found.members += [Member(f"result/{name}", status.folder / name) for name in outputs]


def write(packing: Packing, status: Status, path: Path, language: str = "en") -> list[str]:
    """Write the archive, a ``.tar.gz`` whose bytes depend on its content alone.

    Args:
        packing: without problems.
        status: that it was planned from; its log goes into the archive.
        path: a new file.
        language: of the log.

    Returns:
        The names in the archive.

    Raises:
        UsageError: the file is there, or something stands against the archive.
        WriteFailed: it cannot be written; then there is none.
    """
    if packing.problems:
        raise UsageError("not every checkpoint can be packed", where=str(path), hint="`paralign status` shows what is left to do")
    if checked_path(path).exists():
        raise UsageError("the archive is there already", where=str(path), hint="name another file with --out; nothing is replaced")
    contents = {member.name: _content(member) for member in packing.members}
    contents["logbook.md"] = logbook(status, language).encode()
    contents["manifest.json"] = _manifest(status, contents)
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        temporary.write_bytes(_archive(contents))
        temporary.rename(path)
    except OSError as fault:
        temporary.unlink(missing_ok=True)
        raise unwritten(path, fault, "the archive") from fault
    return sorted(contents)


def _content(member: Member) -> bytes:
    try:
        return member.path.read_bytes()
    except OSError as fault:
        raise UsageError(f"the file cannot be read: {fault.strerror}", where=str(member.path), hint="run its stage again") from fault


def _manifest(status: Status, contents: dict[str, bytes]) -> bytes:
    """What the archive holds: checkpoints with verdicts, files with their SHA-256."""
    told = {
        "schema": SCHEMA,
        "paralign": __version__,
        "checkpoints": [
            {
                "number": each.step.checkpoint,
                "step": each.step.number,
                "state": each.state.value,
                "stages": [
                    {"name": stage.stage, "verdict": stage.kept.verdict, "made": stage.kept.made} for stage in each.stages if stage.kept
                ],
            }
            for each in status.checkpoints
        ],
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in sorted(contents.items())},
    }
    return (json.dumps(told, indent=1) + "\n").encode()


def _archive(contents: dict[str, bytes]) -> bytes:
    """A tar archive without times, owners or paths of this machine."""
    raw = io.BytesIO()
    with gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in sorted(contents.items()):
            entry = tarfile.TarInfo(f"{FOLDER}/{name}")
            entry.size, entry.mode = len(content), 0o644
            tar.addfile(entry, io.BytesIO(content))
    return raw.getvalue()
