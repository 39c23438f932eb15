"""Why a group of ranks did not end: which failed first and where, and which wait."""

from __future__ import annotations

import json
import re
import signal
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from paralign.errors import WorkerFailed, plain_text
from paralign.run import ranklogs, stacks
from paralign.worker.protocol import MalformedMessage
from paralign.worker.protocol.messages import DONE, RankEnd, RankReply
from paralign.worker.protocol.wire import decode
from paralign.worker.ranks.launched import LOOK, rank_file

T = TypeVar("T")

#: what a message has in it that is about processes talking, whoever is at fault
_TALK = re.compile(r"gloo|nccl|process ?group|TCPStore|init_parallel_env", re.IGNORECASE)

#: lines of a rank's log that are quoted where nothing else tells of it
TAIL = 8

#: bytes of a file of ours that are read
MOST = 1 << 20


class RanksFailed(WorkerFailed):
    """A group of ranks that did not come to its end.

    ``talks`` says that processes have lost one another, or never met.
    """

    talks: bool = False

    def add(self, line: str) -> None:
        """Say something more."""
        if line:
            self.message = f"{self.message}\n{line}"


#: what a rank is at while the processes meet
MEETING = ("", "import of the framework and of the side's module", "build_model()", "distribute(model)")


@dataclass
class Ended:
    """How one rank ended, as far as it is known.

    ``answer`` is what it wrote down itself, ``end`` what the process that watched it was told by the system; None where nothing came.
    """

    rank: int
    answer: RankReply | None = None
    end: RankEnd | None = None
    phase: str = ""
    stack: list[stacks.Frame] = field(default_factory=list)
    crash: list[stacks.Frame] = field(default_factory=list)

    @classmethod
    def read(cls, folder: Path, rank: int) -> Ended:
        """What is known of a rank now."""
        texts = {what: _text(rank_file(str(folder), rank, what)) for what in ("answer.json", "end.json", "progress", "stacks", "fault")}
        found = cls(rank, _read(RankReply, texts["answer.json"]), _read(RankEnd, texts["end.json"]), texts["progress"])
        found.stack, found.crash = stacks.main_thread(texts["stacks"]), stacks.main_thread(texts["fault"])
        return found

    @property
    def done(self) -> bool:
        """Whether it did its job."""
        return self.answer is not None and self.answer.reply.event == DONE

    @property
    def raised(self) -> bool:
        """Whether its code raised."""
        return self.answer is not None and self.answer.reply.event != DONE

    @property
    def died(self) -> bool:
        """Whether it ended without an answer and without having been told to."""
        return self.answer is None and self.end is not None and not self.end.ordered

    @property
    def failed(self) -> bool:
        """Whether it failed on its own account."""
        return self.raised or self.died

    @property
    def lost(self) -> bool:
        """Whether its exception says no more than that another process is gone or late."""
        if self.answer is None:
            return False
        return self.raised and ranklogs.is_lost(self.told())

    @property
    def waited(self) -> bool:
        """Whether it gave up waiting for another process, in a call that makes processes talk.

        A backward pass of a wrapper talks in compiled code: there the message tells.
        """
        if self.answer is None or not self.lost:
            return False
        traces = ranklogs.tracebacks(self.answer.reply.traceback.splitlines())
        return _TALK.search(self.told()) is not None or bool(traces and traces[-1].frames[-1].talks)

    @property
    def time(self) -> float:
        """When it failed, in seconds since 1970; a death is noticed a little later."""
        if self.answer is not None:
            return self.answer.time
        return float("inf") if self.end is None else self.end.time - 2 * LOOK

    def told(self) -> str:
        """How it ended, in words."""
        if self.answer is not None and self.raised:
            return f"{self.answer.reply.type}: {self.answer.reply.message}"
        if self.done:
            return "has done its job"
        if self.end is None:
            return "was ended by the launcher, or never started"
        if self.end.ordered:
            return "was ended by the launcher"
        killed = self.end.signal
        if killed:
            why = " (the system does this when memory runs out)" if killed == signal.SIGKILL else ""
            return f"was killed by signal {signal.Signals(killed).name}{why}"
        return f"exited with code {self.end.code} before its job was done"


def _text(path: str) -> str:
    try:
        with Path(path).open(encoding="utf-8", errors="replace") as file:
            return file.read(MOST)
    except OSError:
        return ""


def _read(kind: type[T], text: str) -> T | None:
    """What a rank wrote down; None where that is not there, or not whole."""
    with suppress(ValueError, RecursionError, MalformedMessage):
        return decode(kind, json.loads(text), "a rank's file")
    return None


def culprit(ends: list[Ended]) -> Ended | None:
    """The rank that failed first.

    Those that only say that they have lost another are left out, unless all do.
    """
    failed = [end for end in ends if end.failed]
    causes = [end for end in failed if not end.lost]
    return min(causes or failed, key=lambda end: end.time, default=None)


def blamed(side: str, ends: list[Ended], logs: dict[int, Path], folder: Path) -> RanksFailed:
    """The failure of a group of which a rank failed."""
    first = culprit(ends)
    launcher = _text(str(folder / "launcher.log"))
    if first is None:
        return _unknown(side, ends, logs, folder, launcher)
    log = logs.get(first.rank, folder / "launcher.log")
    said = [f"rank {first.rank} of {len(ends)} failed first, during {first.phase or 'its start'}: {first.told()}"]
    ended = [end for end in ends if first.lost and end.stack and not end.failed and not end.done]
    absent = [end for end in ended if first.waited and not end.stack[0].may_wait]
    for end in ends:
        if end in ended:
            said.append(f"rank {end.rank} {stacks.where(end.stack)} when it was ended; during {end.phase or 'its start'}")
        elif end is not first:
            said.append(f"rank {end.rank}: {end.told()}" + (" (after it)" if end.raised else ""))
    if absent:
        listed = ", ".join(str(end.rank) for end in absent)
        said.append(f"rank {first.rank} waited for rank {listed}, which does not take part: every rank has to make the same calls")
    frames, traceback = [], ""
    if first.answer is not None:
        reply = first.answer.reply
        frames, traceback, where, hint = reply.frames, reply.traceback, reply.where, reply.hint
        said[0] += "".join(f"\n  {name}: {text}" for name, text in (("where", where), ("fix", hint)) if text)
    else:
        frames = [str(frame) for frame in reversed(stacks.users(first.crash) or first.crash[:3])]
        said.append(f"last lines of its log:\n{_quoted(first.rank, log)}")
    for end in absent:
        frames = [*frames, *(f"rank {end.rank}: {frame}" for frame in reversed(stacks.users(end.stack)))]
    said += _launchers_words(launcher, first.rank)
    kind = first.answer.reply.type if first.answer is not None else ("killed" if first.end and first.end.signal else "exited")
    failure = RanksFailed(kind, "\n".join(said), traceback=traceback, log=str(log), side=side, frames=frames)
    failure.talks = first.raised and (first.lost or first.phase == MEETING[-1] or _TALK.search(first.told()) is not None)
    return failure


def _launchers_words(text: str, first: int) -> list[str]:
    named = ranklogs.aborted(text)
    if not named:
        return []
    ranks = ", ".join(map(str, named))
    noun = "rank" if len(named) == 1 else "ranks"
    return [f"the launcher's `Out of all … trainers` only says that {noun} {ranks} ended: the cause is what rank {first} says"]


def _unknown(side: str, ends: list[Ended], logs: dict[int, Path], folder: Path, launcher: str) -> RanksFailed:
    """The failure of a group of which no rank has said why: what the logs hold."""
    read = [ranklogs.read(rank, path) for rank, path in logs.items()]
    found = ranklogs.first_failure(read)
    if found is not None and found.failure is not None:
        trace = found.failure
        frames = [str(frame) for frame in trace.frames if frame.is_users]
        return RanksFailed(
            trace.type or "exited", f"rank {found.rank} of {len(ends)}: {trace.message}", log=str(found.path), side=side, frames=frames
        )
    spoken = next((log for log in read if log.tail), None)
    whose = "the launcher's log" if spoken is None else f"the log of rank {spoken.rank}"
    lines = launcher.splitlines() if spoken is None else spoken.tail
    tail = "\n".join(f"    {plain_text(line)}" for line in lines[-TAIL:]) or "    (empty)"
    place = folder / "launcher.log" if spoken is None else spoken.path
    return RanksFailed("launcher", f"no rank has begun its job; last lines of {whose}:\n{tail}", log=str(place), side=side)


def _quoted(rank: int, log: Path) -> str:
    try:
        lines = ranklogs.read(rank, log, TAIL).tail
    except OSError:
        lines = []
    return "\n".join(f"    {plain_text(line)}" for line in lines) or "    (empty)"


def hung(side: str, ends: list[Ended], timeout: float, folder: Path) -> RanksFailed:
    """The failure of a group that did not end: which ranks wait, and where others are."""
    said = [f"the {len(ends)} processes did not come to an end within {timeout:g} s ([distributed] timeout)"]
    frames = []
    for end in ends:
        at = end.told() if end.answer is not None or end.died else stacks.where(end.stack)
        said.append(f"rank {end.rank} {at}" + ("" if end.done else f"; during {end.phase or 'its start'}"))
        if end.answer is not None and end.raised:  # it gave up waiting by itself
            frames += [f"rank {end.rank}: {frame}" for frame in end.answer.reply.frames]
        elif not end.done:
            frames += [f"rank {end.rank}: {frame}" for frame in reversed(stacks.users(end.stack))]
    waiting = [end.rank for end in ends if end.stack and end.stack[0].talks]
    others = [end.rank for end in ends if end.rank not in waiting]
    if waiting and others:
        listed = [", ".join(map(str, ranks)) for ranks in (waiting, others)]
        said.append(f"rank {listed[0]} waits for rank {listed[1]}, which does not take part: every rank has to make the same calls")
    failure = RanksFailed("timeout", "\n".join(said), log=str(folder / "launcher.log"), side=side, frames=frames)
    failure.talks = all(end.done or end.phase in MEETING for end in ends)
    return failure
