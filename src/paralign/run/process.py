"""A side's worker process: started with the side's own interpreter, spoken to over pipes, never waited for for ever."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paralign.errors import EnvironmentUnavailable, WorkerFailed

if TYPE_CHECKING:
    from paralign.run.project import SideSettings

MAIN = Path(__file__).parents[1] / "worker" / "__main__.py"

#: seconds between two looks at whether a worker still lives
POLL = 0.5

#: lines of a log that a failure quotes
TAIL = 12


class Process:
    """A worker process of one side.

    Args:
        side: ``reference`` or ``candidate``.
        settings: its interpreter, module, root, device and environment.
        folder: where the job files and the log go.
        cwd: the working directory of the side.
        seed: what it is seeded with.
        timeout: seconds that one job may take.
        ignore: folders whose files are not among those that the side depends on.
    """

    def __init__(self, side: str, settings: SideSettings, folder: Path, cwd: Path, *, seed: int, timeout: float, ignore: list[str]) -> None:
        self.side, self.timeout, folder = side, timeout, folder.resolve()
        self.log = folder / f"{side}.log"
        self._jobs = folder / f"{side}-job.json"
        description = folder / f"{side}-side.json"
        description.write_text(
            json.dumps(
                {
                    "side": side,
                    "module": str(settings.module),
                    "root": str(settings.root),
                    "framework": settings.framework,
                    "device": settings.device,
                    "seed": seed,
                    "revision": revision(settings.root),
                    "ignore": ignore,
                }
            ),
            encoding="utf-8",
        )
        self._answers: queue.Queue[str | None] = queue.Queue()
        with self.log.open("ab") as log:
            try:
                self._process = subprocess.Popen(  # noqa: S603 - the interpreter that the user's own project file names
                    [settings.python, "-u", str(MAIN), str(description)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    cwd=cwd,
                    env=environment(settings),
                    start_new_session=True,
                )
            except OSError as error:
                raise EnvironmentUnavailable(
                    f"the interpreter of the {side} does not start: {error.strerror}",
                    where=settings.python,
                    hint=f"correct `python` in [{side}]",
                ) from error
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        if self._process.stdout is not None:
            for line in self._process.stdout:
                self._answers.put(line.decode("utf-8"))
        self._answers.put(None)

    @property
    def alive(self) -> bool:
        """Whether the process still serves jobs."""
        return self._process.poll() is None

    def request(self, job: dict[str, Any]) -> dict[str, Any]:
        """Have a job done.

        Raises:
            WorkerFailed: the side's code raised, the process died, or the job took longer than the time limit.
        """
        self._jobs.write_text(json.dumps(job), encoding="utf-8")
        try:
            if self._process.stdin is not None:
                self._process.stdin.write(f"{self._jobs}\n".encode())
                self._process.stdin.flush()
            line = self._answer()
        except queue.Empty:
            self.close()
            raise WorkerFailed(
                "timeout",
                f"{job['task']} took longer than {self.timeout:g} s; last lines of its log:\n{self.tail()}",
                log=str(self.log),
                side=self.side,
            ) from None
        except BrokenPipeError:
            line = None
        if line is None:
            raise self._died(job)
        answer: dict[str, Any] = json.loads(line)
        if answer["event"] == "failed":
            trace = {} if answer["ours"] else {"traceback": answer["traceback"], "frames": answer["frames"]}
            raise WorkerFailed(answer["type"], _told(answer), log=str(self.log), side=self.side, **trace)
        return dict(answer["answer"])

    def _answer(self) -> str | None:
        """The next line that the worker sends; None once it has died, also where a child of it keeps the pipe open.

        Raises:
            queue.Empty: the time limit has passed.
        """
        until = time.monotonic() + self.timeout
        while True:
            alive = self.alive
            try:
                return self._answers.get(timeout=min(POLL, max(0.0, until - time.monotonic())))
            except queue.Empty:
                if not alive:
                    return None
                if time.monotonic() >= until:
                    raise

    def _died(self, job: dict[str, Any]) -> WorkerFailed:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(POLL)
        if self.alive:  # it closed its pipes and lives on
            self.close()
        code = self._process.wait()
        if code < 0:
            name = signal.Signals(-code).name
            kind = "crashed" if -code in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL) else "killed"
            cause = f"by signal {name} during {job['task']}"
            if name == "SIGKILL":
                cause += " (the system does this when memory runs out)"
        else:
            kind, cause = "exited", f"with code {code} during {job['task']}"
        return WorkerFailed(kind, f"{cause}; last lines of its log:\n{self.tail()}", log=str(self.log), side=self.side)

    def tail(self) -> str:
        """The last lines of the log."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(f"    {line}" for line in lines[-TAIL:]) or "    (empty)"

    def close(self) -> None:
        """End the process and all that it started."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            with suppress(BrokenPipeError):
                self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=0.5)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def revision(root: Path) -> str | None:
    """The git revision of a side's code, with ``-dirty`` where it was changed since; None outside of git."""
    try:
        done = subprocess.run(  # noqa: S603 - nothing but the folder comes from outside
            ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],  # noqa: S607 - the user's own git
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def _told(answer: dict[str, Any]) -> str:
    parts = [
        answer["message"],
        f"where: {answer['where']}" if answer.get("where") else "",
        f"fix: {answer['hint']}" if answer.get("hint") else "",
    ]
    return "\n  ".join(p for p in parts if p)


def environment(settings: SideSettings) -> dict[str, str]:
    """This process's environment with the side's variables over it, and its environment's own programs first on the path.

    Both workers run at once: unless the user says otherwise, each gets half the cores, and its threads sleep while they wait.
    Threads that spin for each other's core made a float64 forward pass thirty times slower.
    """
    threads = str(max(1, (os.cpu_count() or 1) // 2))
    env = {"OMP_NUM_THREADS": threads, "OMP_WAIT_POLICY": "PASSIVE", **os.environ, "PYTHONUNBUFFERED": "1"}
    for variable in ("PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX"):  # this process's own environment is not the side's
        env.pop(variable, None)
    prefix = Path(settings.python).parent.parent
    env["PATH"] = os.pathsep.join([str(Path(settings.python).parent), env.get("PATH", "")])
    if (prefix / "pyvenv.cfg").is_file():
        env["VIRTUAL_ENV"] = str(prefix)
    elif (prefix / "conda-meta").is_dir():
        env["CONDA_PREFIX"] = str(prefix)
    env.update(settings.env)
    return env
