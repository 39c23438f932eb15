"""What a side is, and the state of its model: tasks and answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional

from paralign.worker.protocol.task import Nothing, Raised, Ran, Task


@dataclass
class Description:
    """What a side is.

    ``others`` are functions of its module that paralign does not know. ``sealed``: its model is a file, whose weights are those of the
    program that made it.
    """

    functions: List[str]
    framework: str
    versions: Dict[str, str] = field(default_factory=dict)
    flags: Dict[str, Any] = field(default_factory=dict)
    devices: List[str] = field(default_factory=list)
    device: str = "cpu"
    trains: bool = False
    observes: bool = False
    sealed: bool = False
    others: List[str] = field(default_factory=list)


@dataclass(frozen=True)
class Describe(Task[Description], task="describe"):
    """Say what the side is; builds no model where the framework is named."""


@dataclass
class Entries:
    """How many tensors the state has."""

    entries: int


@dataclass(frozen=True)
class Weights(Task[Entries], task="weights"):
    """Record the state."""


@dataclass(frozen=True)
class Load(Task[Entries], task="load"):
    """Load ``state``, and record the whole state as it then is.

    A new ``attempt`` is never taken from an earlier check.
    """

    record: bool = True
    attempt: str = ""


@dataclass(frozen=True)
class Rebuilt(Task[Nothing], task="rebuilt"):
    """Record some tensors of another model, built after another seed: they were drawn."""

    names: List[str]
    seed: int


@dataclass
class Changed:
    """The names of the tensors whose values are others than before."""

    changed: List[str]


@dataclass(frozen=True)
class Changing(Task[Changed], task="changing"):
    """Find which tensors one pass in train mode changes.

    Where there are ``labels``, a training step is taken instead.
    """

    names: List[str]


@dataclass
class BuildFailure:
    """What the function that builds the model raised, and under which seed."""

    seed: int
    raised: Raised


@dataclass
class Started:
    """How models start.

    Args:
        built: how many there are.
        function: of the side that built them: ``build_untrained`` or ``build_model``.
        given: it returns one and the same.
        failed: what it raised, or None.
        shared: alias -> the tensor that it is, under the first seed.
        elements: how many a model has.
        reseeded: functions by which its own code seeds; they were given other seeds.
    """

    built: int = 0
    given: bool = False
    failed: Optional[BuildFailure] = None
    shared: Dict[str, str] = field(default_factory=dict)
    elements: int = 0
    function: str = "build_model"
    reseeded: List[str] = field(default_factory=list)


@dataclass(frozen=True)
class Initial(Task[Started], task="initial"):
    """Build the model under so many seeds from ``first`` on.

    No other is begun after ``patience``.
    """

    seeds: int
    first: int
    patience: float


@dataclass(frozen=True)
class Streamed:
    """The blocks of a model that does not fit.

    Args:
        blocks: their paths, in order.
        kinds: of each, what is equal for blocks that compute alike.
    """

    blocks: List[str] = field(default_factory=list)
    kinds: List[str] = field(default_factory=list)


@dataclass(frozen=True)
class Stream(Task[Streamed], task="streamed"):
    """Run the model block by block, and record what some blocks are called with.

    Args:
        blocks: path of the list of blocks, '' for the likeliest.
        record: numbers of the blocks whose inputs are recorded; none runs nothing.
        checkpoint: where weights are read from, '' for none: then no block computes.
    """

    blocks: str = ""
    record: List[int] = field(default_factory=list)
    checkpoint: str = ""


@dataclass(frozen=True)
class FreeRun(Task[Ran], task="free-running"):
    """Run the model block by block on what it computes itself, and record its outputs.

    Args:
        blocks: path of the list of blocks, '' for the likeliest.
        checkpoint: where weights are read from.
        runs: ``native`` and ``float64``.
    """

    blocks: str = ""
    checkpoint: str = ""
    runs: List[str] = field(default_factory=lambda: ["native", "float64"])
