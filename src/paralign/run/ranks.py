"""A side's data-parallel program: started by its launcher, one capture a rank, ended whatever happens.

The launcher starts the worker as its program; the job lies in a file, and so do the answers (``worker/supervise.py``, ``worker/rank.py``).
"""

from __future__ import annotations

import json
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paralign.capture import clear
from paralign.capture.merged import Merged
from paralign.errors import EnvironmentUnavailable, WorkerFailed
from paralign.run import ranklogs
from paralign.run.launching import launch
from paralign.run.marked import VARIABLE, MarkedGuard, end_bearers, new_mark
from paralign.run.process import MAIN, environment, open_log, write_own
from paralign.run.rankfailure import Ended, blamed, hung
from paralign.worker.launched import rank_file

if TYPE_CHECKING:
    from paralign.run.distribution import Distributed
    from paralign.run.project import SideSettings

#: seconds between two looks at the launcher
POLL = 0.1

#: seconds that a launcher has to end the other ranks after one has failed: Paddle's looks every 3
GRACE = 15.0

#: what a rank leaves in the folder of its group
_FILES = ("answer.json", "answer.json.tmp", "end.json", "end.json.tmp", "stacks", "fault", "progress")


@dataclass
class Ranks:
    """The processes of one side.

    Args:
        side: ``reference`` or ``candidate``.
        settings: its interpreter, module, root, device and environment.
        distributed: how they are started.
        folder: where job, answers and logs go.
        cwd: the working directory.
        seed: what they are seeded with, each with another number after it.
        ignore: folders in which files are written that are none of the program's.
    """

    side: str
    settings: SideSettings
    distributed: Distributed
    folder: Path
    cwd: Path
    seed: int = 0
    ignore: list[str] = field(default_factory=list)
    _mark: str = ""
    _process: subprocess.Popen[bytes] | None = None
    _closed: bool = False

    @property
    def logs(self) -> Path:
        """The folder of the launcher's logs."""
        return self.folder / "logs"

    @property
    def saving(self) -> Path:
        """The folder in which each rank is given one of its own to save into."""
        return self.folder.with_name(f"{self.folder.name}-saved")

    def record(self, weights: Path, captures: Path, options: dict[str, Any]) -> Merged:
        """Have all ranks do the job, and read what they recorded as one capture.

        Args:
            weights: the capture whose values the model is given.
            captures: the folder in which each rank's capture goes.
            options: of the job (``worker/rank.py``).

        Raises:
            WorkerFailed: a rank failed, died or did not come to an end; names it, its frames and what the others were at.
            EnvironmentUnavailable: the launcher does not start.
        """
        self._prepare()
        places = [captures / f"distributed-{rank}" for rank in range(self.distributed.nproc)]
        for place in places:
            clear(place)
        deadline = time.time() + self.distributed.timeout
        description = self.folder / "job.json"
        write_own(description, json.dumps(self._description(weights, captures, options, deadline)))
        try:
            timed_out = self._run(description, deadline)
        finally:
            self.close()
        ends = [Ended.read(self.folder, rank) for rank in range(self.distributed.nproc)]
        if timed_out and not all(end.done for end in ends):
            raise hung(self.side, ends, self.distributed.timeout, self.folder)
        if not all(end.done for end in ends):
            raise blamed(self.side, ends, ranklogs.logs_in(self.logs), self.folder)
        return Merged.of(places)

    def close(self) -> None:
        """End the launcher and all that it started; also from another thread while the job is under way."""
        self._closed = True
        process = self._process
        if process is None:
            return
        left = end_bearers(self._mark, process.pid)
        with suppress(subprocess.TimeoutExpired):
            process.wait(1.0)
        if left:
            raise WorkerFailed("left", f"processes that cannot be ended: {', '.join(map(str, left))}", side=self.side)

    def _prepare(self) -> None:
        """Make the folders, and delete what an earlier launch left in them: files that we or the launchers name, nothing else."""
        self.logs.mkdir(parents=True, exist_ok=True)
        self.saving.mkdir(exist_ok=True)
        for rank in range(self.distributed.nproc):
            for what in _FILES:
                Path(rank_file(str(self.folder), rank, what)).unlink(missing_ok=True)
        for path in ranklogs.logs_in(self.logs).values():
            path.unlink()
        write_own(self.folder / "launcher.log", "")

    def _description(self, weights: Path, captures: Path, options: dict[str, Any], deadline: float) -> dict[str, Any]:
        settings = self.settings
        return {
            "side": self.side,
            "module": str(settings.module),
            "root": str(settings.root),
            "framework": settings.framework,
            "device": settings.device,
            "seed": self.seed,
            "nproc": self.distributed.nproc,
            "folder": str(self.folder),
            "captures": str(captures / "distributed-{rank}"),
            "saving": str(self.saving),
            "weights": str(weights),
            "deadline": deadline,
            "ignore": [*self.ignore, str(self.folder), str(captures)],
            "options": options,
        }

    def _run(self, description: Path, deadline: float) -> bool:
        """Start the launcher and wait for its end; True where the time was over before."""
        settings, self._mark = self.settings, new_mark()
        program = ["-u", str(MAIN), "--rank", str(description)]
        if self.distributed.is_own(self.side, settings.framework):
            program = program[1:]  # the launchers of frameworks start Python themselves, unbuffered
        command = self.distributed.arguments(self.side, settings.framework, settings.python, program, self.logs, settings.device)
        with open_log(self.folder / "launcher.log") as log:
            try:
                self._process = launch(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self.cwd,
                    env={**environment(settings), VARIABLE: self._mark},
                    start_new_session=True,
                )
            except OSError as error:
                raise EnvironmentUnavailable(
                    f"the launcher of the {self.side} does not start: {error.strerror}",
                    where=command[0],
                    hint="correct `command` in [distributed], or `python` of the side",
                ) from error
        guard = MarkedGuard(self._process.pid, self._mark)
        try:
            return self._wait(self._process, deadline)
        finally:
            guard.close()

    def _wait(self, process: subprocess.Popen[bytes], deadline: float) -> bool:
        """Wait for the launcher, no longer than until the deadline, and than ``GRACE`` after a rank has failed."""
        failed = 0.0
        while process.poll() is None:
            now = time.time()
            if now > deadline:
                return True
            ends = [Ended.read(self.folder, rank) for rank in range(self.distributed.nproc)]
            if not failed and any(end.failed for end in ends):
                failed = now
            if failed and now > failed + GRACE:
                return False
            time.sleep(POLL)
        return False
