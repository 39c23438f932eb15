"""An entry of the user's program, run with calls recorded, and these calls made again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, List

from paralign.worker.protocol.pass_tasks import FunctionCall, LayersTold
from paralign.worker.protocol.task import Task


@dataclass(frozen=True)
class Definition:
    """A function, method or class of the user's source.

    Args:
        path: of its file.
        module: dotted name of the file.
        name: ``function``, ``Class`` or ``Class.method``.
        first, line, last: its first decorator, its header, and its end.
        kind: ``function``, ``class``, ``method``, ``static`` or ``classmethod``.
    """

    path: str
    module: str
    name: str
    first: int
    line: int
    last: int
    kind: str

    @property
    def key(self) -> str:
        """``module:name``."""
        return f"{self.module}:{self.name}"


@dataclass
class EntryCall(FunctionCall):
    """A call of a function, or of a method of the object of a number; 0 of none.

    ``gave``: figures of what it gave back within the entry (``calls/result_figures.py``); '' where they say nothing of a call made again.
    """

    object_: int = 0
    gave: str = ""


@dataclass
class MadeObject:
    """An object of one of the source's classes, and how it was made.

    Args:
        number: from 1 on.
        class_: ``module:Class``.
        arguments: of its constructor, JSON as of a call; its tensors are records ``object#number``.
        problem: why it cannot be made again, or why its weights are not there.
        model: a model of the framework; its state, once it is called, are records ``state#number`` with the entry's name as the leaf.
        depth: how many calls of other models were under way when it was first called.
        called: whether a call of it was recorded.
    """

    number: int
    class_: str
    arguments: str = ""
    problem: str = ""
    model: bool = False
    depth: int = 0
    called: bool = False


@dataclass
class EntryTold:
    """What an entry called.

    ``reached``: keys of all definitions whose code ran, whether or not calls of them are recorded. ``hidden``: key -> why no call of it
    can be recorded.
    """

    calls: List[EntryCall] = field(default_factory=list)
    objects: List[MadeObject] = field(default_factory=list)
    reached: List[str] = field(default_factory=list)
    hidden: Dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry(Task[EntryTold], task="entry"):
    """Run an entry, and record what the source's functions and classes are given.

    Args:
        kind: ``function`` (``target`` is ``module:function``), ``script`` (its path) or ``model`` (``build_model()`` of the side, called
            with the value ``inputs``).
        most: calls that are recorded of one function or object, and objects of one class.
    """

    kind: str
    target: str
    definitions: List[Definition]
    most: int = 4


@dataclass
class AgainCall(FunctionCall):
    """A call made again.

    Args:
        lines: those of its own definition that it ran.
        gave: figures of what it gave back.
        left: whether it raised, and variables or objects are others than before.
    """

    lines: List[int] = field(default_factory=list)
    gave: str = ""
    left: bool = False


@dataclass
class AgainTold:
    """Calls made again.

    ``passed``, ``built``: module -> lines that the calls of a model ran, and its building. ``layers``: of the model.
    """

    calls: List[AgainCall] = field(default_factory=list)
    passed: Dict[str, List[int]] = field(default_factory=dict)
    built: Dict[str, List[int]] = field(default_factory=dict)
    layers: LayersTold = field(default_factory=LayersTold)


@dataclass(frozen=True)
class Again(Task[AgainTold], task="again"):
    """Make calls of the value ``entry`` again, in float64.

    Args:
        object_: number of the model whose calls they are; it is the side's model. 0: calls of functions and of objects that are no model.
        names: of these alone; none: all.
        definitions: of which lines are told; none: no lines are.
        left_out: ``name#number`` of calls that are not made.
    """

    object_: int = 0
    names: List[str] = field(default_factory=list)
    definitions: List[Definition] = field(default_factory=list)
    left_out: List[str] = field(default_factory=list)
