"""What passes between paralign and its workers besides tasks.

Who a worker is, what it is asked, and how that ended.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import List, Optional

from paralign.worker.protocol.measure_tasks import Ranked  # noqa: TC001 - fields' types are looked up

#: how a request ended; FORKED: the answer comes from a child of the side's, which went on as if it were the worker
DONE, FAILED, FORKED = "done", "failed", "forked"


@dataclass(frozen=True)
class SideDescription:
    """The side that a worker serves.

    Args:
        side: ``reference`` or ``candidate``.
        module: its file; ``root``: the folder that its imports start from.
        framework: '' where the model tells.
        revision: the git revision of its code, None outside of git.
        ignore: folders whose files are not among those that the side depends on; ``own``: the one whose code
            is watched, ``sources``: the one whose code is imported from its sources alone ('' for none).
        unit: the part of the model that is served as its model, '' for all of it; ``blocks`` is the list of blocks, ``checkpoint`` where
            the unit's weights are read from ('' for either where nobody said).
        lock: the file of the output folder's lock, None without one.
    """

    side: str
    module: str
    root: str
    framework: str
    device: str
    seed: int
    revision: Optional[str] = None
    ignore: List[str] = field(default_factory=list)
    lock: Optional[str] = None
    own: str = ""
    sources: str = ""
    unit: str = ""
    blocks: str = ""
    checkpoint: str = ""


@dataclass(frozen=True)
class Request:
    """The path of a job, and what its reply has to repeat."""

    job: str
    token: str


@dataclass(frozen=True)
class Reply:
    """How a request ended; an exception crosses the border as data.

    Args:
        event: ``DONE``, ``FAILED`` or ``FORKED``.
        token: that of the request.
        type: class of the exception; with its ``message``, and ``where`` and ``hint`` of one that is ours.
        ours: whether it is.
        frames: where it passed in the user's own code, outermost first.
    """

    event: str
    token: str = ""
    type: str = ""
    message: str = ""
    where: Optional[str] = None
    hint: Optional[str] = None
    ours: bool = False
    traceback: str = ""
    frames: List[str] = field(default_factory=list)


@dataclass(frozen=True)
class RankDescription:
    """The job of all ranks of a side; what is not said here is as in :class:`SideDescription`.

    Args:
        nproc: how many ranks there are.
        folder: where they leave their files.
        captures: the folder of a rank's capture, with ``{rank}`` for its number.
        saving: the folder in which each rank is given one of its own to save into.
        weights: the capture whose values the model is given.
        deadline: seconds since 1970.
        options: what they are to do.
    """

    side: str
    module: str
    root: str
    framework: str
    device: str
    seed: int
    nproc: int
    folder: str
    captures: str
    saving: str
    weights: str
    deadline: float
    ignore: List[str]
    options: Ranked


@dataclass(frozen=True)
class RankReply:
    """How a rank's job ended, when (seconds since 1970), and during what."""

    reply: Reply
    time: float
    phase: str = ""


@dataclass(frozen=True)
class RankEnd:
    """How a rank's process ended, as the system told.

    Code or signal (0 for none), whether that was ordered, when.
    """

    code: int
    signal: int
    ordered: bool
    time: float
