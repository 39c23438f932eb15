"""One rank of a launched group: a process that watches, and its child, which does the job.

Launchers end the other ranks where one fails, and say little of which was first. The watching process is told by the system how its child
ended, and by the launcher's signal that the end was ordered. It writes both down, whatever the launcher.
"""

import json
import os
import signal
import sys
import time
from typing import Any, Callable, Optional

from paralign.worker.protocol.messages import RankDescription, RankEnd, Reply
from paralign.worker.protocol.wire import decode, encode
from paralign.worker.ranks.launched import LOOK, RANKS, SIZES, number, put, rank_file

#: seconds that a child has to follow the launcher's order to end
PATIENCE = 3.0


def main(path: str, failure: Callable[[BaseException], Reply], die_with_parent: Callable[[], None]) -> None:
    """Do the job that a file describes as one rank of those that a launcher has started.

    Args:
        path: of the description.
        failure: what is said of an exception.
        die_with_parent: has the system end this process when its parent ends.
    """
    with open(path, encoding="utf-8") as file:
        description = decode(RankDescription, json.load(file), "description of the ranks")
    rank, size = number(RANKS), number(SIZES)
    if rank is None:
        sys.exit(f"the launcher gives its processes no number: none of {', '.join(RANKS)} is set")
    if size is not None and size != description.nproc:
        sys.exit(f"the launcher has started {size} processes, {description.nproc} are wanted")
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        die_with_parent()
        if os.getppid() != parent:
            os._exit(1)
        from paralign.worker.ranks import rank as job

        job.main(description, rank, failure)
        os._exit(70)  # not reached
    _Watch(child, rank_file(description.folder, rank, "end.json")).until_end()


class _Watch:
    """Waits for the child, and hands on orders to end."""

    def __init__(self, child: int, path: str) -> None:
        self._child, self._path, self._launcher = child, path, os.getppid()
        self._ordered: Optional[float] = None
        for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(each, self._order)

    def _order(self, number_: int, frame: Any) -> None:  # noqa: ARG002 - as Python calls it
        if self._ordered is None:
            self._ordered = time.time()
        self._kill(number_)

    def _kill(self, number_: int) -> None:
        try:
            os.kill(self._child, number_)
        except ProcessLookupError:
            return

    def until_end(self) -> None:
        """Wait for the child's end, write down what it was, and end alike."""
        while True:
            found, status = os.waitpid(self._child, os.WNOHANG)
            if found:
                break
            if os.getppid() != self._launcher or (self._ordered is not None and time.time() > self._ordered + PATIENCE):
                self._kill(signal.SIGKILL)
            time.sleep(LOOK)
        killed = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        code = 0 if killed else os.WEXITSTATUS(status)
        put(self._path, encode(RankEnd(code, killed, self._ordered is not None, time.time())))
        sys.stdout.flush()
        if killed:
            signal.signal(killed, signal.SIG_DFL) if killed not in (signal.SIGKILL, signal.SIGSTOP) else None
            os.kill(os.getpid(), killed)
        os._exit(code)
