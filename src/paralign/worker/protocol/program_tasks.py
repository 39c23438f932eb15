"""The program that users run: tasks and answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, List, Optional, Tuple

from paralign.worker.protocol.task import Raised, Task


@dataclass
class OperatorTimes:
    """Rows of name, milliseconds a run, and calls; ``none`` says why there are none."""

    none: str
    rows: List[Tuple[str, float, int]]


@dataclass
class PartFailed:
    """What ``predict`` or ``export`` raised, and for which path, '' for none."""

    raised: Raised
    path: str = ""


@dataclass
class Inferred:
    """What came of predictions and of the export.

    How many predictions; times of its operators, where they were asked for; parts that raised.
    """

    predictions: int
    export: str
    operators: Optional[OperatorTimes] = None
    failed: Dict[str, PartFailed] = field(default_factory=dict)


@dataclass(frozen=True)
class Infer(Task[Inferred], task="infer"):
    """``predict(path)`` of every path, and the exported program.

    ``operators``: time its operators.

    With ``moved``, predictions alone, once for each of these seeds, with weights that rounding moves; as they are for a negative one.
    With ``double``, predictions alone, of the model in float64.
    """

    paths: List[str]
    operators: bool = False
    moved: List[int] = field(default_factory=list)
    double: bool = False


@dataclass
class ExpressionsTold:
    """What the rewritten modules made.

    Args:
        roots: ``buffer:<name>``, ``module:<path>``, ``output:<path>``, ``optimizer``, ``scheduler``, ``batch_<n>:<path>`` of a metric,
            ``predict_<n>:<path>``, ``after:<step>:<name>``, ``sample:<path>`` -> number of the event that made it; ``model`` and
            ``step:<n>``: the last event before the optimizer was built, and before its schedule was advanced; ``begin:<n>``: the first
            one of a training step. Of a whole training they are those of its first optimizer and of its steps.
        rates: the learning rates before each step of the schedule, or of the training.
        exhausted: why not all was recorded, ''.
        failed: why there is no recording, or None.
        values: events that were recorded.
    """

    roots: Dict[str, int] = field(default_factory=dict)
    rates: List[List[float]] = field(default_factory=list)
    exhausted: str = ""
    failed: Optional[str] = None
    values: int = 0


@dataclass(frozen=True)
class Provenance(Task[ExpressionsTold], task="provenance"):
    """Run a ``part`` of the side with its own modules rewritten.

    That is ``model``, ``metric``, ``infer`` of some ``paths``, ``optimizer``, whose schedule is advanced by ``steps`` steps, or so many
    steps of its own ``train_step`` or ``train``; then ``names`` are the tensors of the model that are looked at after each. Of
    ``dataset`` or ``loader`` it is the sample or batch of a ``number`` of a ``split``.
    """

    part: str
    paths: List[str] = field(default_factory=list)
    steps: int = 0
    names: List[str] = field(default_factory=list)
    split: str = ""
    number: int = 0


@dataclass
class PredictionTraced:
    """Steps that were recorded; ``exhausted``: there were more."""

    steps: int
    exhausted: bool


@dataclass(frozen=True)
class Predicted(Task[PredictionTraced], task="predicted"):
    """Trace one prediction.

    It is that of ``predict(path)``, or of the program ``script`` in the folder ``root``.
    """

    path: str
    script: List[str] = field(default_factory=list)
    root: str = ""
