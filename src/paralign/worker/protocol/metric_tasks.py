"""Metrics and evaluations: tasks and answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, List, Optional, Tuple

from paralign.worker.protocol.task import Task


@dataclass
class Evaluated:
    """Batches that were run through the model.

    Whether they came from a ``loader``, and how many that has, where it tells.
    """

    batches: int
    loader: bool = False
    total: Optional[int] = None


@dataclass(frozen=True)
class Evaluate(Task[Evaluated], task="evaluate"):
    """Record the model's outputs and the labels of the first ``batches`` and the last.

    ``most``: batches that are looked at. ``given``: the given inputs and labels are taken although there is a loader.
    """

    split: str
    batches: int
    most: int
    given: bool = False


@dataclass
class MetricTaken:
    """What came of a metric on ``batches``, and whether it has a state.

    Run -> why there is no such noise; point -> how the metric ``failed`` there.
    """

    batches: int = 0
    stateful: bool = False
    without: Dict[str, str] = field(default_factory=dict)
    failed: Dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Metric(Task[MetricTaken], task="metric"):
    """The side's metric on the reference's outputs.

    Or, for ``noise``, how far rounding moves it.

    ``tolerant``: a batch on which it raises is left out and told, as long as there is another. ``skip``: points that are left out.
    ``widens``: half outputs are given in float32, for only one side makes such.
    """

    noise: bool = False
    tolerant: bool = False
    skip: Tuple[str, ...] = ()
    widens: bool = False


@dataclass
class OwnEvaluated:
    """Samples and batches of a side's own evaluation.

    Whether these were all, and whether a figure of all was taken; how many batches the loader has. ``seen``: a digest of each sample;
    None where they cannot be told. ``counts``: leaf of the labels -> the lengths of its first axes together.
    ``sizes``: samples of each batch.
    """

    samples: int = 0
    counts: Dict[str, int] = field(default_factory=dict)
    batches: int = 0
    whole: bool = True
    joined: bool = False
    total: Optional[int] = None
    seen: Optional[List[str]] = field(default_factory=list)
    sizes: List[int] = field(default_factory=list)


@dataclass(frozen=True)
class Own(Task[OwnEvaluated], task="own"):
    """The side's model over its own loader; ``shift`` is added to the seed."""

    split: str
    patience: float
    shift: int = 0


@dataclass
class StepsTraced:
    """Steps that were recorded; ``exhausted``: there were more."""

    steps: int
    exhausted: bool


@dataclass(frozen=True)
class MetricSteps(Task[StepsTraced], task="metric_steps"):
    """Trace the metric on a ``point``.

    ``batch_<n>``, ``all`` (the batches joined) or ``running`` (one with a state, over them).
    """

    point: str


@dataclass
class Probed:
    """What came of probes.

    Probe -> ``ok``, or why the function refused; probe -> why there is none; real samples of ``rows`` whose best scores are equal.
    """

    probes: Dict[str, str] = field(default_factory=dict)
    left_out: Dict[str, str] = field(default_factory=dict)
    tied: Optional[int] = None
    rows: Optional[int] = None


@dataclass(frozen=True)
class Probes(Task[Probed], task="probes"):
    """The side's ``metric`` or ``loss`` on rare cases.

    ``ignored``: a label to be left out that the labels do not have; ``occurs``: whether another split's do.
    """

    function: str
    ignored: Optional[int] = None
    occurs: bool = False


@dataclass
class IgnoredLabel:
    """A label that may be one to be left out, and its ``source``: a split, or a place in code.

    ``ignores``: whether the side's function leaves it out; ``in_data``: whether labels of another split have it.

    ``beyond``: whether it is only known to lie beyond a bound that code compares labels with.
    """

    value: int
    source: str
    ignores: bool
    in_data: bool
    beyond: bool = False


@dataclass
class IgnoredLabels:
    """The labels that a side may leave out, where those that are compared have none such.

    ``untried``: whether none was tried, since a label out of range ends a process on a card.
    """

    found: List[IgnoredLabel] = field(default_factory=list)
    untried: bool = False


@dataclass(frozen=True)
class Ignorable(Task[IgnoredLabels], task="ignorable"):
    """Find labels to be left out in other ``splits`` and in the code of ``function``.

    That is ``metric`` or ``loss``.
    """

    function: str
    splits: Tuple[str, ...] = ()
