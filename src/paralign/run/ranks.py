"""A side's data-parallel program: its launcher starts it, each rank leaves a capture.

It is ended whatever happens.

The launcher starts the worker as its program; the job lies in a file, and so do the answers (``supervise.py`` and ``rank.py``
of ``worker/ranks/``).
"""

from __future__ import annotations

import json
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from paralign.capture import clear
from paralign.capture.merged import Merged
from paralign.errors import EnvironmentUnavailable, WorkerFailed
from paralign.run import ranklogs
from paralign.run.distribution import own_launcher
from paralign.run.launching import launch
from paralign.run.marked import VARIABLE, MarkedGuard, end_bearers, new_mark
from paralign.run.process import MAIN, environment, open_log, write_own
from paralign.run.rankfailure import Ended, RanksFailed, blamed, hung
from paralign.worker.protocol import Ranked
from paralign.worker.protocol.messages import RankDescription
from paralign.worker.protocol.wire import encode
from paralign.worker.ranks.launched import rank_file

if TYPE_CHECKING:
    from paralign.run.distribution import Distributed
    from paralign.run.project import SideSettings

#: seconds between two looks at the launcher
POLL = 0.1

#: seconds that a launcher has to end the other ranks after one has failed: Paddle's looks every 3
GRACE = 15.0

#: seconds that a trial of the communication may take: the import of the framework, and a sum
REHEARSAL = 90.0

#: what to do where processes cannot talk at all
ADVICE = {
    "gloo": "let this machine's name resolve (`getent hosts $(hostname)`), or set GLOO_SOCKET_IFNAME to an interface of it "
    "('lo' will do on one machine) in the side's `env`; see that no proxy or firewall stands before 127.0.0.1",
    "NCCL": "set NCCL_DEBUG = 'INFO' in the side's `env` and read the ranks' logs; as many cards as processes have to be free; try "
    "NCCL_P2P_DISABLE = '1' and NCCL_SOCKET_IFNAME, and the NCCL that the framework was built with (`paralign doctor`)",
}

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
    _ended: bool = False
    _rehearsal: Ranks | None = None

    @property
    def logs(self) -> Path:
        """The folder of the launcher's logs."""
        return self.folder / "logs"

    @property
    def saving(self) -> Path:
        """The folder in which each rank is given one of its own to save into."""
        return self.folder.with_name(f"{self.folder.name}-saved")

    def record(self, weights: Path, captures: Path, options: Ranked) -> Merged:
        """Have all ranks do the job, and read what they recorded as one capture.

        Args:
            weights: the capture whose values the model is given.
            captures: the folder in which each rank's capture goes.
            options: what they do.

        Raises:
            WorkerFailed: a rank failed, died or did not come to an end; names it, its frames and what the others were at. Where processes
                have lost one another or never met, whether the framework's own communication works here.
            EnvironmentUnavailable: the launcher does not start.
        """
        places = [captures / f"distributed-{rank}" for rank in range(self.distributed.nproc)]
        for place in places:
            clear(place)
        failure = self._attempt(weights, captures, options)
        if failure is None:
            return Merged.of(places)
        if failure.talks and not self._ended:
            failure.add(self._rehearsed(weights, captures))
        raise failure

    def _rehearsed(self, weights: Path, captures: Path) -> str:
        """Whether the launcher's processes can talk without the user's program, in words.

        '' where the framework cannot try.
        """
        if own_launcher(self.settings.framework) is None:
            return ""
        limits = replace(self.distributed, timeout=min(REHEARSAL, self.distributed.timeout))
        folder = self.folder.with_name(f"{self.folder.name}-rehearsal")  # the logs of the failure stay
        self._rehearsal = Ranks(self.side, self.settings, limits, folder, self.cwd, self.seed)
        failure = self._rehearsal._attempt(weights, captures, Ranked(rehearsal=True))  # noqa: SLF001 - another of this class
        way = "gloo" if self.settings.device == "cpu" else "NCCL"
        if failure is None:
            return f"{way} by itself works between {self.distributed.nproc} such processes: the fault lies in the program"
        return f"{way} by itself fails too, without the program: {failure.message.splitlines()[0]}\n  fix: {ADVICE[way]}"

    def _attempt(self, weights: Path, captures: Path, options: Ranked) -> RanksFailed | None:
        """Have all ranks do a job; how that failed, None where it did not."""
        self._prepare()
        deadline = time.time() + self.distributed.timeout
        description = self.folder / "job.json"
        write_own(description, json.dumps(encode(self._description(weights, captures, options, deadline))))
        try:
            timed_out = self._run(description, deadline)
        finally:
            self._end()
        ends = [Ended.read(self.folder, rank) for rank in range(self.distributed.nproc)]
        if all(end.done for end in ends):
            return None
        if timed_out:
            return hung(self.side, ends, self.distributed.timeout, self.folder)
        return blamed(self.side, ends, ranklogs.logs_in(self.logs), self.folder)

    def close(self) -> None:
        """End the launcher and all that it started, for good.

        Also from another thread while the job is under way.
        """
        self._ended = True
        self._end()
        if self._rehearsal is not None:
            self._rehearsal.close()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        left = end_bearers(self._mark, process)
        with suppress(subprocess.TimeoutExpired):
            process.wait(1.0)
        if left:
            raise WorkerFailed("left", f"processes that cannot be ended: {', '.join(map(str, left))}", side=self.side)

    def _prepare(self) -> None:
        """Make the folders, and delete what an earlier launch left in them.

        Files that we or the launchers name, nothing else.
        """
        self.logs.mkdir(parents=True, exist_ok=True)
        self.saving.mkdir(exist_ok=True)
        for rank in range(self.distributed.nproc):
            for what in _FILES:
                Path(rank_file(str(self.folder), rank, what)).unlink(missing_ok=True)
        ranklogs.forget(self.logs)
        write_own(self.folder / "launcher.log", "")

    def _description(self, weights: Path, captures: Path, options: Ranked, deadline: float) -> RankDescription:
        settings = self.settings
        return RankDescription(
            self.side,
            module=str(settings.module),
            root=str(settings.root),
            framework=settings.framework,
            device=settings.device,
            seed=self.seed,
            nproc=self.distributed.nproc,
            folder=str(self.folder),
            captures=str(captures / "distributed-{rank}"),
            saving=str(self.saving),
            weights=str(weights),
            deadline=deadline,
            ignore=[*self.ignore, str(self.folder), str(captures)],
            options=options,
        )

    def _run(self, description: Path, deadline: float) -> bool:
        """Start the launcher and wait for its end; True where the time was over before."""
        settings, self._mark = self.settings, new_mark()
        program = ["-u", str(MAIN), "--rank", str(description)]
        if self.distributed.is_own(self.side, settings.framework):
            program = program[1:]  # the launchers of frameworks start Python themselves, unbuffered
        command = self.distributed.arguments(self.side, settings.framework, settings.python, program, self.logs, settings.device)
        if self._ended:
            raise WorkerFailed("stopped", "the check was interrupted", side=self.side)
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
        """Wait for the launcher until the deadline, or ``GRACE`` after a rank has failed."""
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
