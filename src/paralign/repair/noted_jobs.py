"""Jobs of a side that were noted, to be done again elsewhere."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from paralign.capture import clear

if TYPE_CHECKING:
    from collections.abc import Callable

    from paralign.run.recorder import Worker
    from paralign.worker.protocol import Job


class Noting:
    """A worker whose jobs are noted.

    What they take is kept, unless one of them made it: later runs write other things in the same place.

    Args:
        start: starts the worker.
        jobs: takes the jobs.
        folder: for what is kept; it is there for this worker alone.
    """

    def __init__(self, start: Callable[[], Worker], jobs: list[Job], folder: Path) -> None:
        self._worker, self._jobs, self._folder = start(), jobs, folder
        self._kept = 0
        self.side = self._worker.side

    @property
    def alive(self) -> bool:
        """Whether the worker still takes jobs."""
        return self._worker.alive

    def request(self, job: Job) -> None:
        """Do a job, and note it."""
        made = {each.capture for each in self._jobs}
        values = {name: path if path in made else self._keep(path) for name, path in job.values.items()}
        self._worker.request(job)
        self._jobs.append(replace(job, values=values))

    def _keep(self, path: str) -> str:
        """A capture under a name that nobody else writes to."""
        self._kept += 1
        kept = self._folder / f"{self._kept}"
        shutil.copytree(path, kept, copy_function=_linked)
        return str(kept)

    def dismiss(self) -> None:
        """Begin to let go of everything."""
        self._worker.dismiss()

    def close(self) -> None:
        """Let go of everything."""
        self._worker.close()


def _linked(source: str, target: str) -> None:
    """The same file under another name; a copy where the file system has no links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def moved(jobs: list[Job], folder: Path) -> list[Job]:
    """Jobs with their captures, also where one takes another's, in another folder."""
    made = {Path(job.capture): str(folder / Path(job.capture).name) for job in jobs}
    taken = [{name: made.get(Path(path), path) for name, path in job.values.items()} for job in jobs]
    return [replace(job, capture=made[Path(job.capture)], values=values) for job, values in zip(jobs, taken, strict=True)]


def prepared(folder: Path) -> None:
    """Make room for what the jobs of one edit record."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(folder.iterdir()):
        clear(path)
