"""The worker process: reads requests from standard input, answers a line of JSON each.

A request is a line of JSON: ``job``, the path of a job file, and ``token``, which the answer repeats. When standard input ends, the process
ends: at once where a job is under way.

With ``--diagnose`` it examines the interpreter instead (``interpreter/diagnosis.py``); with ``--rank`` it is one of the processes that
a launcher of data-parallel programs has started (``ranks/supervise.py``).

It runs under any interpreter; paralign need not be installed there: the package is loaded from the folder that this file
lies in, and nothing else of that folder's surroundings gets onto the path. What a side prints goes to the log.
"""

from __future__ import annotations

import importlib.util
import json
import os
import queue
import signal
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any, Iterator, Optional, TextIO

if TYPE_CHECKING:
    from paralign.worker.protocol.messages import Reply, Request, SideDescription

#: number of the request "signal me when my parent dies" in Linux's <sys/prctl.h>
_SET_DEATH_SIGNAL = 1

#: the line after which a child of a standing worker ends (``process/standing.py``)
END = "\n"

#: seconds between two looks at whether the parent is still the same
_LOOK = 1.0


def _find_paralign() -> None:
    """Make ``import paralign`` give the package that this file is part of."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or os.curdir) != here]
    spec = importlib.util.spec_from_file_location("paralign", os.path.join(package, "__init__.py"), submodule_search_locations=[package])
    if spec is None or spec.loader is None:
        raise ImportError(f"paralign is not in {package}")
    module = importlib.util.module_from_spec(spec)
    sys.modules["paralign"] = module
    spec.loader.exec_module(module)
    from paralign.adapters import packages

    packages.take_over()


def _claim_streams() -> "tuple[TextIO, TextIO]":
    """Take the pipes to the parent under private descriptors.

    What the side prints goes where errors go; its reads find nothing.
    """
    requests = os.fdopen(os.dup(0), "r", encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, answers


class _Requests:
    """The parent's requests.

    A thread reads them, so that the parent's end is seen while a job is under way.
    """

    def __init__(self, pipe: TextIO) -> None:
        self._pipe = pipe
        self._lines: "queue.Queue[Optional[str]]" = queue.Queue()
        self._working = False
        self._parent = os.getppid()
        _die_with_parent()
        for act in (self._read, self._look):
            threading.Thread(target=act, daemon=True).start()

    def _read(self) -> None:
        for line in self._pipe:
            if line == END:
                break
            self._lines.put(line)
        self._lines.put(None)
        if self._working:
            _end()

    def _look(self) -> None:
        """Look at the parent's number until the parent has ended.

        The pipe does not end where one of its descriptors lives on in another process.
        """
        pause = threading.Event()
        while os.getppid() == self._parent:
            pause.wait(_LOOK)
        _end()

    def __iter__(self) -> Iterator[str]:
        while True:
            line = self._lines.get()
            if line is None:
                return
            self._working = True
            yield line
            self._working = False


def _end() -> None:
    """End this process now, whatever its other threads do."""
    os.kill(os.getpid(), signal.SIGKILL)


def _die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends, where it can (Linux).

    That works also while compiled code keeps Python's lock.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        import ctypes

        ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, int(signal.SIGKILL), 0, 0, 0)
    except (ImportError, OSError, AttributeError):  # pragma: no cover - an interpreter without ctypes, a C library without prctl
        return


def _hold(lock: Optional[str]) -> None:
    """Hold the output folder's lock until this process ends.

    A check that follows a killed one waits for it.

    Children that the side forks let go of it.
    """
    if lock is None:
        return
    try:
        import fcntl

        file = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (ImportError, OSError):  # a system or file system without such locks
        return

    def release() -> None:
        try:
            os.close(file)
        except OSError:  # the side has closed all descriptors
            return

    os.register_at_fork(after_in_child=release)


def _failure(error: BaseException, token: str = "") -> Reply:
    from paralign.errors import ParalignError, message_of
    from paralign.worker.protocol.messages import FAILED, Reply
    from paralign.worker.sides.frames import user_frames

    ours = isinstance(error, ParalignError)
    return Reply(
        FAILED,
        token,
        type(error).__name__,
        error.what if isinstance(error, ParalignError) else message_of(error),
        where=getattr(error, "where", None) if ours else None,
        hint=getattr(error, "hint", None) if ours else None,
        ours=ours,
        traceback="".join(traceback.format_exception(type(error), error, error.__traceback__)),
        frames=user_frames(error),
    )


def main(path: str) -> None:
    """Serve jobs for the side that the JSON file describes, until standard input ends.

    ``path`` is that of the file.
    """
    _serve(path, *_claim_streams())


def _serve(path: str, pipe: TextIO, answers: TextIO) -> None:
    requests = _Requests(pipe)

    from paralign.worker.process import files, loader_thread, sealed, variables
    from paralign.worker.protocol.messages import FORKED, Request, SideDescription
    from paralign.worker.protocol.wire import decode, encode

    with open(path, encoding="utf-8") as file:
        side = decode(SideDescription, json.load(file), "description of the side")
    _hold(side.lock)
    files.install(side.ignore, side.own, side.sources)
    variables.install()
    sealed.install()
    loader_thread.watch()
    server = _Server(side)
    for line in requests:
        files.seal(False)
        reply = server.reply(decode(Request, json.loads(line), "request"))
        files.seal(True)
        answers.write(json.dumps(encode(reply)) + "\n")
        answers.flush()
        if reply.event == FORKED:
            os._exit(1)
        sys.stdout.flush()
        sys.stderr.flush()
    if side.own:
        os._exit(0)  # no handler of a judged side's runs unseen


class _Server:
    """Do jobs, in this process only.

    A child that the side's code forks may come back here, and has to end.
    """

    def __init__(self, side: SideDescription) -> None:
        self._side, self._process = side, os.getpid()
        self._session: Any = None

    def reply(self, request: Request) -> Reply:
        """How a job ended: well, with a failure, or in a child of this process."""
        from paralign.errors import ForkedChild, plain_text
        from paralign.worker.protocol.messages import DONE, FORKED, Reply

        try:
            self._perform(request.job)
        except (Exception, SystemExit, ForkedChild) as error:  # noqa: BLE001 - a side's code may raise anything, sys.exit() included; it crosses the border as data
            if os.getpid() != self._process:
                return Reply(FORKED, request.token)
            sys.stderr.write(plain_text(traceback.format_exc()))
            return _failure(error, request.token)
        return Reply(DONE, request.token)

    def _perform(self, path: str) -> None:
        from paralign.errors import ForkedChild

        if self._session is None:
            began = time.perf_counter()
            self._session = _session(self._side)
            self._session.prepared = time.perf_counter() - began
        if os.getpid() != self._process:
            raise ForkedChild
        from paralign.worker.protocol import Job
        from paralign.worker.protocol.wire import decode
        from paralign.worker.tasks import perform

        with open(path, encoding="utf-8") as file:
            job = decode(Job, json.load(file), "job")
        perform(self._session, job)


def _session(side: SideDescription) -> Any:
    from paralign.worker.sides.session import Session
    from paralign.worker.sides.side import load

    functions = load(side.module, side.root)
    if side.unit and "build_model" in functions:
        from paralign.worker.passes.blockwise import unit_of

        functions["build_model"] = unit_of(side, functions["build_model"])
    return Session(side.side, functions, side.framework or None, side.device, side.seed, revision=side.revision)


if __name__ == "__main__":
    _find_paralign()
    if sys.argv[1] == "--diagnose":
        from paralign.worker.interpreter import diagnosis

        diagnosis.main(*sys.argv[2:])
    elif sys.argv[1] == "--rank":
        from paralign.worker.ranks import supervise

        supervise.main(sys.argv[2], _failure, _die_with_parent)
    elif sys.argv[1] == "--standing":
        from paralign.worker.process import standing

        standing.serve(sys.argv[2], sys.argv[3:], _die_with_parent, _serve)
    else:
        main(sys.argv[1])
