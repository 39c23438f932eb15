"""The ranks' work in one process, and what `paralign watch` asks: tasks and answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional

from paralign.worker.protocol.task import Ran, Task


@dataclass
class Share:
    """Which samples a loader gives in one epoch.

    Args:
        by: ``index`` where a batch sampler says them, else ``content``.
        batches: of each its samples.
        ended: whether all were seen.
        length: of the data set, None where nobody says it.
    """

    by: str
    batches: List[List[Any]]
    ended: bool
    length: Optional[int]


@dataclass
class LocalMetric:
    """Figures by path, of how many samples; and a hash of each."""

    values: Dict[str, float]
    samples: int
    rows: List[str]


@dataclass
class InOneProcess(Ran):
    """The answer of the task ``single``.

    Losses by run and rank; without a launcher: the rates, the share of the samples, the metrics. ``resolution`` is the L2 norm of what
    rounding takes from the weights that an update was added to. ``pooled`` is the metric over what all ranks evaluated, ``unjoined`` why
    their batches could not be joined.
    """

    losses: Dict[str, Dict[str, Optional[float]]] = field(default_factory=dict)
    rates: List[float] = field(default_factory=list)
    share: Optional[Share] = None
    metrics: Optional[Dict[str, float]] = None
    local: Optional[LocalMetric] = None
    pooled: Optional[Dict[str, float]] = None
    unjoined: str = ""
    resolution: float = 0.0


@dataclass(frozen=True)
class Single(Task[InOneProcess], task="single"):
    """Take a step on each rank's first batch, and on all joined.

    ``most`` batches of the split ``evaluation`` are for the metric.
    """

    split: str
    evaluation: str
    nproc: int
    most: int


@dataclass
class Printed:
    """What a rank printed: how often, and where."""

    count: int
    lines: List[str]


@dataclass
class RankTold:
    """What one rank saw that is no tensor.

    Args:
        type: class of the distributed model.
        start: name -> digest of the model's tensors before weights were carried over.
        layers: layers that normalise over the batch: path -> class.
        rates: of the optimizer, at the start.
        generators: what the states of the random generators are known by, before the steps; ``drawn``: those that are drawn from.
        losses: of each step, None where it told none; ``sizes``: samples of its batch; ``replicas``: as ``start``, after it.
        share: the samples that the loader gives here.
        metrics: of the side's own evaluation; ``local``: the metric of this rank's share. None without one.
        saved: file -> the line that wrote it; None where nothing is saved.
        places: function of the side -> where it is defined.
        writes: file -> the line that wrote it, outside of what is saved.
        printed: what it printed.
    """

    type: str
    start: Dict[str, str]
    layers: Dict[str, str]
    rates: List[float]
    generators: Dict[str, str]
    losses: List[Optional[float]]
    replicas: List[Dict[str, str]]
    sizes: List[Optional[int]]
    share: Share
    metrics: Optional[Dict[str, float]]
    local: Optional[LocalMetric]
    saved: Optional[Dict[str, str]]
    places: Dict[str, str]
    writes: Dict[str, str]
    printed: Printed
    drawn: List[str] = field(default_factory=list)


@dataclass(frozen=True)
class Ranked(Task[RankTold], task="distributed"):
    """A data-parallel program in small, done by every rank (``ranks/rank.py``).

    Args:
        split: of the training; ``evaluation``: of the metric.
        steps: of the training.
        rehearsal: the ranks only talk to each other, without the user's program.
    """

    split: str = ""
    evaluation: str = ""
    steps: int = 0
    rehearsal: bool = False


@dataclass
class MemoryWatched:
    """The containers, lines and graphs that grow, over how many steps.

    ``unwatched``: why the side's own ``train_step`` was not what was watched, ''. See :mod:`paralign.worker.trainings.memory`.
    """

    containers: List[Dict[str, Any]]
    lines: List[Dict[str, Any]]
    graphs: List[Dict[str, Any]]
    steps: int
    unwatched: str = ""


@dataclass(frozen=True)
class Memory(Task[MemoryWatched], task="memory"):
    """Do the same again and again.

    Args:
        what: ``step``, ``forward`` or ``predict``, there of ``path``.
        steps: how often.
        warm: how often before the first look.
    """

    what: str
    steps: int
    warm: int
    path: str = ""


@dataclass
class LoaderTimed:
    """Seconds a batch with so many workers.

    Of the first, of those behind it, and their spread; None where there were too few.
    """

    workers: Optional[int]
    batches: int
    first: Optional[float]
    seconds: Optional[float]
    spread: Optional[float]


@dataclass
class Padding:
    """Padding in a leaf.

    Its share, the share that sorted rows would have, the number that pads, and how many batches were seen.
    """

    leaf: str
    share: float
    sorted: float
    mark: int
    batches: int


@dataclass
class LoaderTold:
    """How fast a loader is, with its ``own`` workers and others.

    Why some failed; seconds of a training step; padding.
    """

    own: Optional[int]
    cores: int
    tried: List[LoaderTimed] = field(default_factory=list)
    failed: Dict[str, str] = field(default_factory=dict)
    step: Optional[float] = None
    padding: List[Padding] = field(default_factory=list)


@dataclass(frozen=True)
class Loading(Task[LoaderTold], task="loading"):
    """Time the loader with so many ``workers``, each within ``seconds``."""

    split: str
    workers: List[int]
    seconds: float
