"""The tasks that paralign gives to a side: of each the options, and what it answers.

A task is a class of its options; the class names its answer: ``class Forward(Task[Ran], task="forward")``. Its function in the worker
is in :mod:`paralign.worker.tasks`, and says what is recorded. Options and answers are JSON on the way
(:mod:`paralign.worker.protocol.wire`); they are read once, where they arrive. Times are seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Dict, Generic, List, Optional, Type, TypeVar, get_args

from paralign.errors import quoted
from paralign.worker.protocol.wire import MalformedMessage, decode, encode

if TYPE_CHECKING:
    from paralign.capture import Capture

A = TypeVar("A")

#: task -> the class of its options
KINDS: "Dict[str, Type[Task[Any]]]" = {}


class Task(Generic[A]):
    """What a side is to do; a subclass has the options of one task as its fields."""

    task: ClassVar[str] = ""
    answers: ClassVar[Type[Any]]

    def __init_subclass__(cls, *, task: str = "") -> None:
        super().__init_subclass__()
        if task:
            cls.task, cls.answers = task, get_args(cls.__orig_bases__[0])[0]  # type: ignore[attr-defined] # every generic's subclass has them
            KINDS[task] = cls

    @classmethod
    def answer(cls: "Type[Task[A]]", capture: Capture) -> A:
        """What this task answered, from the capture that it recorded; the same object each time.

        Raises:
            MalformedMessage: the capture holds no answer, or none of this task.
        """
        if not isinstance(capture.answer, cls.answers):
            said = capture.manifest.settings.get("answer")
            capture.answer = decode(cls.answers, said, f"{cls.task}: its answer in {capture.path}")
        return capture.answer  # type: ignore[no-any-return] # of the class that was just asked for


@dataclass(frozen=True)
class Job:
    """A task for a worker.

    Args:
        task: its name.
        capture: the folder to write.
        options: of the task, as JSON.
        values: name -> folder of a capture to read.
        settings: kept in the capture's manifest.
    """

    task: str
    capture: str
    options: Dict[str, Any] = field(default_factory=dict)
    values: Dict[str, str] = field(default_factory=dict)
    settings: Dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, order: Task[Any], capture: str, values: Dict[str, str], settings: Optional[Dict[str, Any]] = None) -> Job:
        """The job of a task with its options."""
        return cls(order.task, capture, encode(order), values, settings or {})

    @property
    def order(self) -> Task[Any]:
        """The task with its options.

        Raises:
            MalformedMessage: there is no such task, or its options are wrong.
        """
        if self.task not in KINDS:
            raise MalformedMessage(f"there is no task {quoted(self.task)}", where="job", hint=f"choose from: {', '.join(sorted(KINDS))}")
        return decode(KINDS[self.task], self.options, f"options of the task {self.task}")


@dataclass(frozen=True)
class InRuns(Task[A]):
    """A task that is done several times: ``native``, ``float64``, ``perturbed-N``."""

    runs: List[str]


@dataclass
class Ran:
    """Which runs succeeded, and why others failed; of a training ``run:mode`` each."""

    runs: List[str] = field(default_factory=list)
    failed: Dict[str, str] = field(default_factory=dict)


def runs_of(capture: Capture) -> Ran:
    """Which runs succeeded, of whatever task recorded a capture.

    Nothing of one that says nothing of runs.
    """
    if not isinstance(capture.answer, Ran):
        said = capture.manifest.settings.get("answer") or {}
        known = {name: said[name] for name in ("runs", "failed") if name in said}
        capture.answer = decode(Ran, known, f"its answer in {capture.path}")
    return capture.answer


@dataclass
class Raised:
    """An exception of the side's own code; ``frames`` as of a reply."""

    type: str
    message: str
    traceback: str
    frames: List[str]


@dataclass
class Nothing:
    """All is in the capture."""
