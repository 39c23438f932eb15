"""Have captures recorded, and reuse those of the reference that nothing has changed under."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from paralign.adapters.packages import VARIABLE, sources
from paralign.capture import Capture, clear, discard
from paralign.errors import CaptureFormatError, WorkerFailed
from paralign.model import SCHEMA, JobTime, SideTime
from paralign.run.samples import is_part
from paralign.run.turns import is_mine
from paralign.worker.process import variables
from paralign.worker.process.files import UNSEEN, fingerprint
from paralign.worker.protocol import Job, MalformedMessage, Task
from paralign.worker.protocol.wire import encode

if TYPE_CHECKING:
    from collections.abc import Callable


class Outdated(Exception):
    """Captures of another process do not hold what the side computes in this one.

    A model that fills a cache or counts its calls computes otherwise when it is run in another order.
    """

    def __init__(self, side: str) -> None:
        self.side = side
        super().__init__(f"the {side} computes otherwise in a new process")


class Worker(Protocol):
    """What does jobs: a process, or live objects."""

    side: str

    @property
    def alive(self) -> bool:
        """Whether it still takes jobs."""

    def request(self, job: Job) -> None:
        """Do a job."""

    def dismiss(self) -> None:
        """Begin to let go of everything; :meth:`close` follows."""

    def close(self) -> None:
        """Let go of everything."""


@dataclass
class Recorder:
    """The captures of one side.

    Args:
        side: ``reference`` or ``candidate``.
        start: starts a worker.
        folder: where the captures go, one folder each.
        identity: what the side is (module, interpreter, environment, seed, versions); part of what a capture is known by.
        reuse: whether a capture that nothing has changed under is taken instead of recording again.
        variables: the environment variables that a worker would have now; None where they are not looked at.
        instead: path of a capture -> the one that this side is given in its place: batches of its own loader.
        unseen: why the side may have read what nobody saw, so that its captures are not reused later.
        spent: where the time of the side went.
        depended_on: path -> fingerprint of the files behind all captures that were asked for; whoever looks at it may empty it.
    """

    side: str
    start: Callable[[], Worker]
    folder: Path
    identity: dict[str, Any]
    reuse: bool = False
    variables: dict[str, str] | None = None
    reused: set[str] = field(default_factory=set)
    unseen: set[str] = field(default_factory=set)
    depended_on: dict[str, str] = field(default_factory=dict)
    instead: dict[str, Capture] = field(default_factory=dict)
    spent: SideTime = field(default_factory=SideTime)
    _worker: Worker | None = None
    _closed: bool = False
    _on_part: bool = False
    _prelude: list[Job] = field(default_factory=list)
    _have: set[str] = field(default_factory=set)

    @property
    def asked(self) -> frozenset[str]:
        """The names of all captures that were asked for."""
        return frozenset(self._have)

    def record(
        self,
        name: str,
        order: Task[Any],
        values: dict[str, Capture] | None = None,
        *,
        prelude: bool = False,
    ) -> Capture:
        """The capture ``name`` of this side, recorded now or reused.

        Args:
            name: the capture's folder below the side's.
            order: what the worker does.
            values: captures that the task reads.
            prelude: the task prepares the model: do it again whenever a worker has to be started anew.

        Raises:
            WorkerFailed: the side failed.
        """
        values = {n: self.instead.get(str(c.path), c) for n, c in (values or {}).items()}
        key = self._key(order, values)
        path = self.folder / name
        job = Job.of(order, str(path), {n: str(c.path.absolute()) for n, c in values.items()}, {"key": key})
        recent = name in self._have
        reusable = (self.reuse or recent) and _valid(path, key, self.variables, recent=recent)
        began, starts = time.perf_counter(), self.spent.starts
        if not reusable:
            clear(path)
            self._request(job, part=any(map(is_part, values.values())))
        else:
            self.spent.reused += 1
            if name not in self._have:
                self.reused.add(name)
        elapsed = time.perf_counter() - began
        if prelude:
            again = replace(job, capture=str(self.folder / f"{name}-again"))
            self._prelude = [known for known in self._prelude if known.capture != again.capture] + [again]
            if reusable and self._worker is not None and self._worker.alive:
                self._repeat(self._prelude[-1])
        self._have.add(name)
        capture = self._opened(path, order)
        if not reusable:
            note_job(self.spent, order.task, elapsed, capture.manifest.resources, started=self.spent.starts > starts)
        return capture

    def _opened(self, path: Path, order: Task[Any]) -> Capture:
        """The capture that the worker wrote.

        Raises:
            WorkerFailed: it is not there, not whole or damaged, although the worker said that the job is done.
        """
        try:
            capture = Capture.open(path)
        except CaptureFormatError as fault:
            raise WorkerFailed("CaptureFormatError", f"{order.task}: what it recorded cannot be read: {fault}", side=self.side) from fault
        self.depended_on = {**capture.manifest.files, **self.depended_on}
        self.unseen.update(file[len(UNSEEN) :] for file in capture.manifest.files if file.startswith(UNSEEN))
        if not capture.complete:
            raise WorkerFailed("CaptureFormatError", f"{order.task}: what it recorded is not whole\n  where: {path}", side=self.side)
        try:
            order.answer(capture)
        except MalformedMessage as fault:
            raise WorkerFailed("MalformedMessage", f"{order.task}: {fault}", side=self.side) from fault
        return capture

    def prepare(self, order: Task[Any], values: dict[str, Capture], *, recorded_by: str) -> None:
        """Have every worker that is started from now on do a task first.

        And the one that runs, unless it made ``recorded_by`` itself.
        """
        job = Job.of(order, str(self.folder / f"{order.task}-again"), {n: str(c.path.absolute()) for n, c in values.items()})
        self._prelude.append(job)
        if recorded_by in self.reused and self._worker is not None and self._worker.alive:
            self._repeat(job)

    def _key(self, order: Task[Any], values: dict[str, Capture]) -> str:
        inputs = {n: c.manifest.settings.get("key", str(c.path)) for n, c in values.items()}
        text = json.dumps([SCHEMA, self.identity, order.task, encode(order), inputs], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def _request(self, job: Job, *, part: bool = False) -> None:
        """Have a job done.

        After jobs on a ``part`` of the samples, others get a new worker: a model may keep what it made of few samples, in attributes and
        containers that nothing puts back.
        """
        if self._on_part and not part:
            self._end_worker()
        if self._worker is None or not self._worker.alive:
            self._end_worker()
            self._worker = self.start()
            self.spent.starts += 1
            if self._closed:  # while it was starting
                self._end_worker()
            try:
                for again in self._prelude:
                    self._repeat(again)
            except WorkerFailed:
                self._end_worker()  # unprepared, it would compute with weights of its own
                raise
        self._on_part = part
        self._serving().request(job)

    def _serving(self) -> Worker:
        """The worker; another thread may have ended it since.

        Raises:
            WorkerFailed: it has.
        """
        worker = self._worker
        if worker is None:
            raise WorkerFailed("stopped", "the check was interrupted", side=self.side)
        return worker

    def _repeat(self, job: Job) -> None:
        path = Path(job.capture)  # where the worker writes, although the folder may be another since
        clear(path)
        self._serving().request(job)
        discard(path)

    def dismiss(self) -> None:
        """Let the worker end by itself while other things are done; :meth:`close` waits for it."""
        if self._worker is not None:
            self._worker.dismiss()

    def restart(self) -> None:
        """End the worker; the next task starts another, which does first what prepares the model."""
        self._end_worker()

    def close(self) -> None:
        """End the worker for good, also one that another thread waits for or will start."""
        self._closed = True
        self._end_worker()

    def _end_worker(self) -> None:
        worker, self._worker, self._on_part = self._worker, None, False
        if worker is not None:
            worker.close()


def note_job(spent: SideTime, task: str, elapsed: float, resources: dict[str, float], *, started: bool) -> None:
    """Add a job to where a side's time went.

    What its capture tells, and what passed around it.

    Args:
        spent: of the side.
        task: what the worker did.
        elapsed: seconds from the request to the answer; where a worker was ``started`` for it, from the start.
        resources: of the capture.
        started: whether a worker was.
    """
    job = spent.jobs.setdefault(task, JobTime())
    inside, imports = resources.get("seconds", 0.0), resources.get("prepared_seconds", 0.0)
    job.count += 1
    job.seconds += inside
    job.busy += resources.get("busy_seconds", 0.0)
    spent.imports += imports
    around = max(0.0, elapsed - inside - imports)
    if started:
        spent.start += around
    else:
        spent.exchange += around


def _valid(path: Path, key: str, environment: dict[str, str] | None, *, recent: bool) -> bool:
    """Whether a capture is there, whole, of the same settings, and up to date.

    Every file and variable that it depended on is unchanged. What may have read unseen is so in the check that recorded it (``recent``).
    """
    try:
        capture = Capture.open(path)
    except CaptureFormatError:
        return False
    manifest = capture.manifest
    if not capture.complete or manifest.released or manifest.settings.get("key") != key:
        return False
    if environment is not None and variables.changed(manifest.variables, environment):
        return False
    return all(fingerprint(file) == known or (recent and file.startswith(UNSEEN)) for file, known in manifest.files.items())


def both(reference: Callable[[], Capture], candidate: Callable[[], Capture]) -> tuple[Capture, Capture]:
    """Take two recordings at once; of live sides one after the other.

    That is in the thread whose settings and interrupts the user knows.

    Raises:
        WorkerFailed: a side failed; where both did, the reference's failure, with the candidate's as its cause.
    """
    first, second = (_done(reference), _done(candidate)) if is_mine() else _at_once(reference, candidate)
    if isinstance(first, WorkerFailed):
        raise first from (second if isinstance(second, WorkerFailed) else None)
    if isinstance(second, WorkerFailed):
        raise second
    return first, second


def _done(act: Callable[[], Capture]) -> Capture | WorkerFailed:
    try:
        return act()
    except WorkerFailed as failure:
        return failure


def _at_once(reference: Callable[[], Capture], candidate: Callable[[], Capture]) -> tuple[Capture | WorkerFailed, Capture | WorkerFailed]:
    pool = ThreadPoolExecutor(2)
    try:
        first, second = pool.submit(_done, reference), pool.submit(_done, candidate)
        wait((first, second))
    except BaseException:  # interrupted: whoever holds the workers ends them, and nothing waits for the jobs' time limit
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()
    return first.result(), second.result()


@lru_cache(maxsize=1)
def own_code() -> str:
    """A digest of paralign's own recording half: captures made by other code are not reused."""
    package = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in [*sorted(p for room in ("worker", "adapters", "capture") for p in (package / room).rglob("*.py")), *sources()]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


#: ends with the process that asks, where the system can see to it
_PROBE = """
import json, os, platform, sys
try:
    import ctypes
    ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
except (ImportError, OSError, AttributeError):
    pass
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
def head(d, field):  # the whole text, a description of pages, takes long to parse
    text = d.read_text("METADATA") or d.read_text("PKG-INFO") or ""
    lines = text.partition("\\n\\n")[0].splitlines()
    return next((line[len(field) + 2 :].strip() for line in lines if line.startswith(field + ": ")), None) or d.metadata[field]
try:
    from importlib.metadata import distributions
    found = {name.lower(): head(d, "Version") for d in distributions() for name in [head(d, "Name")] if name}
except ImportError:
    found = {}
print(json.dumps([dict(found, python=platform.python_version()), dict(os.environ)]))
"""


@dataclass(frozen=True)
class Interpreter:
    """What an interpreter says of itself.

    Args:
        installed: name -> version of what is installed for it; empty where it does not answer.
        variables: the environment variables that it has: those that it is given, and what a start script or itself makes of them.
    """

    installed: dict[str, str]
    variables: dict[str, str]


def interpreter(python: str, env: dict[str, str]) -> Interpreter:
    """What is installed for an interpreter, unimported, and a worker's environment."""
    env = {name: value for name, value in env.items() if name != VARIABLE}  # a worker takes that away before anything else
    try:
        done = subprocess.run([python, "-c", _PROBE, str(os.getpid())], capture_output=True, text=True, timeout=60, check=True, env=env)  # noqa: S603 - as in process.py
        found, variables_ = json.loads(done.stdout.splitlines()[-1])
        return Interpreter(dict(found), dict(variables_))
    except (OSError, subprocess.SubprocessError, ValueError, IndexError, TypeError):
        return Interpreter({}, dict(env))
