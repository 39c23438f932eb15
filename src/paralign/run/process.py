"""A side's worker process, started with the side's own interpreter.

It is spoken to over pipes, and never waited for for ever.

A request is a line of JSON with the path of a job file and a token that was never used before; the answer has to bear it. The side's code
runs in the same process and can write into any of its descriptors: what is not an answer to this request is a failure of the side.
"""

from __future__ import annotations

import json
import os
import secrets
import selectors
import signal
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paralign.adapters.base import TF32_OVERRIDE
from paralign.adapters.packages import VARIABLE, told_to_workers
from paralign.errors import EnvironmentUnavailable, WorkerFailed, unwritten
from paralign.run.launching import Guard, await_group, kill_group, launch
from paralign.worker.protocol import MalformedMessage
from paralign.worker.protocol.messages import DONE, FAILED, FORKED, Reply, Request, SideDescription
from paralign.worker.protocol.wire import decode, encode

if TYPE_CHECKING:
    from typing import BinaryIO

    from paralign.run.project import SideSettings
    from paralign.worker.protocol import Job

MAIN = Path(__file__).parents[1] / "worker" / "__main__.py"

#: seconds between two looks at whether a worker still lives
POLL = 0.1

#: seconds that a worker without a job has to end by itself: exit handlers of frameworks
GRACE = 0.5

#: seconds in which a Python interpreter runs one line; it takes some hundredths
ASKED = 10.0

#: bytes of the longest line that is read as an answer: answers hold names and settings, values go into captures
MOST = 1 << 28

#: lines of a log that a failure quotes
TAIL = 12

#: characters of a foreign line that a failure quotes
QUOTED = 80

#: how the names of job files and descriptions of sides end
JOB, DESCRIPTION = "-job.json", "-side.json"


def _is_python(settings: SideSettings, cwd: Path) -> bool | None:
    """Whether a side's program runs a line of Python; None where it does not say.

    Asked where it ended before its first answer, and run as the worker is: a wrapper may need the side's variables or folder.
    """
    try:
        done = subprocess.run(  # noqa: S603 - the interpreter that the project names
            [settings.python, "-c", "print('paral' + 'ign')"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=ASKED,
            check=False,
            cwd=cwd,
            env=environment(settings),
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return b"paralign" in done.stdout


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
        lock: the file of the output folder's lock, which the process holds as long as it lives; None without one.
        own: the folder whose code is watched, ``sources``: the one whose code is imported from its sources alone; '' for none.
    """

    def __init__(
        self,
        side: str,
        settings: SideSettings,
        folder: Path,
        cwd: Path,
        *,
        seed: int,
        timeout: float,
        ignore: list[str],
        lock: Path | None = None,
        own: str = "",
        sources: str = "",
    ) -> None:
        self.side, self.timeout, folder = side, timeout, folder.resolve()
        self.log = folder / f"{side}.log"
        name = f"{side}-{secrets.token_hex(4)}"
        self._jobs, self._description = folder / f"{name}{JOB}", folder / f"{name}{DESCRIPTION}"
        write_own(
            self._description,
            json.dumps(
                encode(
                    SideDescription(
                        side,
                        module=str(settings.module),
                        root=str(settings.root),
                        framework=settings.framework,
                        device=settings.device,
                        seed=seed,
                        revision=revision(settings.root),
                        ignore=ignore,
                        lock=None if lock is None else str(lock),
                        own=own,
                        sources=sources,
                        unit=settings.unit,
                        blocks=settings.blocks,
                        checkpoint="" if settings.checkpoint is None else str(settings.checkpoint),
                    )
                )
            ),
        )
        self._received = bytearray()
        self._ending = self._answered = False
        self._started_with = settings, cwd
        self._using = threading.Lock()  # held while the pipes are in use
        self._process = self._start(settings, self._description, cwd)
        self._guard = Guard(self._process.pid)

    def _start(self, settings: SideSettings, description: Path, cwd: Path) -> subprocess.Popen[bytes]:
        with open_log(self.log) as log:
            try:
                return launch(
                    [settings.python, "-u", str(MAIN), str(description)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    cwd=cwd,
                    env=environment(settings),
                    start_new_session=True,
                    bufsize=0,
                )
            except OSError as error:
                raise EnvironmentUnavailable(
                    f"the interpreter of the {self.side} does not start: {error.strerror}",
                    where=settings.python,
                    hint=f"correct `python` in [{self.side}]",
                ) from error

    @property
    def pid(self) -> int:
        """The system's number of the process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process still serves jobs."""
        return not self._ending and self._process.poll() is None

    def request(self, job: Job) -> None:
        """Have a job done.

        Raises:
            WorkerFailed: the side's code raised, the process died, the job took longer than the time limit, or something else than the
                worker wrote into its pipe.
        """
        token = secrets.token_hex(16)
        try:
            with self._using:
                line = self._exchange(job, token)
        except TimeoutError:
            self.close()
            raise WorkerFailed(
                "timeout",
                f"{job.task} took longer than {self.timeout:g} s; last lines of its log:\n{self.tail()}",
                log=str(self.log),
                side=self.side,
            ) from None
        if line is None:
            raise self._died(job)
        self._answered = True
        reply = _understood(line, token)
        if reply is None or reply.event == FORKED:
            self.close()
            raise self._foreign(job, line) if reply is None else self._forked(job)
        if reply.event == FAILED:
            traceback, frames = ("", []) if reply.ours else (reply.traceback, reply.frames)
            raise WorkerFailed(reply.type, _told(reply), traceback, log=str(self.log), side=self.side, frames=frames)

    def _exchange(self, job: Job, token: str) -> bytes | None:
        """Send a job and wait for a line; None where the process has died.

        Raises:
            TimeoutError: the time limit has passed.
        """
        if self._ending:
            return None
        write_own(self._jobs, json.dumps(encode(job)))
        try:
            if self._process.stdin is not None:
                self._process.stdin.write(json.dumps(encode(Request(str(self._jobs), token))).encode() + b"\n")
        except BrokenPipeError:
            return None
        return None if self._process.stdout is None else self._line(self._process.stdout, time.monotonic() + self.timeout)

    def _line(self, pipe: BinaryIO | Any, until: float) -> bytes | None:
        """The next line; None once the process has died.

        Also where a child of it keeps the pipe open.
        """
        with selectors.DefaultSelector() as ready:
            ready.register(pipe, selectors.EVENT_READ)
            while True:
                alive = self.alive
                if ready.select(max(0.0, min(POLL, until - time.monotonic()))):
                    data = os.read(pipe.fileno(), 1 << 16)
                    self._received += data
                    if b"\n" in data or len(self._received) > MOST:
                        line, _, rest = bytes(self._received).partition(b"\n")
                        self._received = bytearray(rest)
                        return line
                    if not data:
                        return None
                elif not alive:
                    return None
                if time.monotonic() >= until:
                    raise TimeoutError

    def _foreign(self, job: Job, line: bytes) -> WorkerFailed:
        """The failure of a side that has written into the pipe of its worker."""
        quoted = line[:QUOTED].decode("utf-8", errors="backslashreplace")
        return WorkerFailed(
            "foreign answer",
            f"during {job.task} something else than an answer came through the worker's private pipe: {quoted!r}\n"
            "  fix: let the side's code write to no descriptor that it has not opened, "
            "and leave the functions of Python's json as they are",
            log=str(self.log),
            side=self.side,
        )

    def _forked(self, job: Job) -> WorkerFailed:
        """The failure of a side that goes on in two processes."""
        return WorkerFailed(
            "forked",
            f"a child that the side's code has forked came back to paralign, by the end of {job.task}: what follows would run twice\n"
            "  fix: end the child with os._exit() in the branch where os.fork() returned 0",
            log=str(self.log),
            side=self.side,
        )

    def _died(self, job: Job) -> WorkerFailed:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE)
        if self._process.poll() is None:  # it closed its pipes and lives on
            self.close()
        code = self._process.wait()
        if code < 0:
            name = _signal_name(-code)
            kind = "crashed" if -code in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL) else "killed"
            cause = f"by signal {name} during {job.task}"
            if name == "SIGKILL":
                cause += " (the system does this when memory runs out)"
        else:
            kind, cause = "exited", f"with code {code} during {job.task}"
        told = f"{cause}; last lines of its log:\n{self.tail()}"
        if not self._answered and _is_python(*self._started_with) is False:
            told += f"\n  fix: correct `python` in [{self.side}]: {self._started_with[0].python} is no Python interpreter"
        return WorkerFailed(kind, told, log=str(self.log), side=self.side)

    def tail(self) -> str:
        """The last lines of the log.

        Of a traceback that begins among them, what follows its heading.
        """
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-TAIL:]
        heads = [number for number, line in enumerate(lines, 1) if line.startswith("Traceback (most recent call last)")]
        return "\n".join(f"    {line}" for line in lines[heads[-1] if heads else 0 :]) or "    (empty)"

    def dismiss(self) -> None:
        """Let a process without a job end by itself, without waiting for it.

        :meth:`close` waits.
        """
        if not self._using.locked() and self._process.stdin is not None:
            self._process.stdin.close()

    def close(self) -> None:
        """End the process and all that it started; a job under way is not waited for."""
        self._ending = True
        if not self._using.locked():
            self._say_end()
        kill_group(self._process.pid)
        self._process.wait()
        await_group(self._process.pid)
        self._guard.close()
        for path in (self._jobs, self._description):
            with suppress(OSError):
                path.unlink()
        with self._using:  # a request under way sees the end within POLL
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()

    def _say_end(self) -> None:
        """Close the worker's input, and give it time to end by itself."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=GRACE)


def _understood(line: bytes, token: str) -> Reply | None:
    """The reply in a line; None where the line is none, or none to this request."""
    try:
        reply = decode(Reply, json.loads(line.decode("utf-8")), "reply")
    except (ValueError, RecursionError, MalformedMessage):
        return None
    if reply.event == FORKED:  # perhaps during an earlier request
        return reply
    if reply.token == token and reply.event in (DONE, FAILED):
        return reply
    return None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # real-time signals have no names of their own
        first = getattr(signal, "SIGRTMIN", None)
        if first is None or number < first:
            return f"{number}"
        return f"{number} (SIGRTMIN+{number - first})"


def open_log(path: Path) -> BinaryIO:
    """The log to append to; a link in its place is removed, not written through."""
    if path.is_symlink():
        path.unlink()
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o666), "ab")


def sweep(folder: Path) -> None:
    """Remove the job files of workers that were killed; the folder is locked."""
    for path in folder.iterdir():
        if path.name.endswith((JOB, DESCRIPTION)):
            path.unlink(missing_ok=True)


def write_own(path: Path, text: str) -> None:
    """Write a new file in place of what is there; a link is replaced, not written through.

    Raises:
        WriteFailed: it cannot be written.
    """
    try:
        path.unlink(missing_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as fault:
        raise unwritten(path, fault) from fault


def revision(root: Path) -> str | None:
    """The git revision of a side's code; None outside of git.

    It ends in ``-dirty`` where the code was changed since.
    """
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


def _told(reply: Reply) -> str:
    parts = [
        reply.message,
        f"where: {reply.where}" if reply.where else "",
        f"fix: {reply.hint}" if reply.hint else "",
    ]
    return "\n  ".join(p for p in parts if p)


def environment(settings: SideSettings) -> dict[str, str]:
    """This process's environment with the side's variables over it.

    Its environment's own programs come first on the path.

    Both workers run at once: unless the user says otherwise, each gets half the cores, and its threads sleep while they wait.
    Threads that spin for each other's core made a float64 forward pass thirty times slower.

    NVIDIA's libraries compute products of float32 in full: PyTorch's convolutions have 10 bits there by default, which no CPU does.
    """
    threads = str(max(1, (os.cpu_count() or 1) // 2))
    env = {"OMP_NUM_THREADS": threads, "OMP_WAIT_POLICY": "PASSIVE", **os.environ, "PYTHONUNBUFFERED": "1"}
    if settings.device != "cpu":
        env.setdefault(TF32_OVERRIDE, "0")
    for variable in ("PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX"):  # this process's own environment is not the side's
        env.pop(variable, None)
    prefix = Path(settings.python).parent.parent
    env["PATH"] = os.pathsep.join([str(Path(settings.python).parent), env.get("PATH", "")])
    if (prefix / "pyvenv.cfg").is_file():
        env["VIRTUAL_ENV"] = str(prefix)
    elif (prefix / "conda-meta").is_dir():
        env["CONDA_PREFIX"] = str(prefix)
    env.update(settings.env)
    env[VARIABLE] = told_to_workers()
    if env.get(TF32_OVERRIDE) == "":  # the user's way to leave it to the side's program
        del env[TF32_OVERRIDE]
    return env
