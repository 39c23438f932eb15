"""One pass of a model, its loss and what lies behind it: tasks and answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, List, Optional, Tuple

from paralign.worker.protocol.task import InRuns, Ran, Task
from paralign.worker.protocol.watching_options import Watch


@dataclass
class Called:
    """The paths of all modules in the order in which a pass first completes them."""

    calls: List[str]


@dataclass(frozen=True)
class Calls(Task[Called], task="calls"):
    """In which order the modules are called."""


@dataclass(frozen=True, order=True)
class Question:
    """A name by which a model's code asks what pass it is in, and where."""

    name: str
    file: str
    line: int


@dataclass
class FunctionCall:
    """One call of a function of the side's own.

    Args:
        name: ``module:function``.
        number: of the call, from 1 on.
        arguments, result: JSON, tensors as numbers of the records ``name#number`` of role ``input`` and ``output``.
        problem: why it cannot be made again, or compared; '' where it can.
        silent: it gave nothing back, or nothing finite, and changed nothing that can be compared.
        given: its arguments after it, and the objects among them, as JSON.
        hidden: what of its object, its arguments or the variables that it changes cannot be compared.
    """

    name: str
    number: int
    arguments: str = ""
    result: str = ""
    problem: str = ""
    silent: bool = False
    given: str = ""
    hidden: str = ""


@dataclass
class LayersTold:
    """What is known of a model's layers beside their results.

    Args:
        classes: path of a layer -> ``module:Class``.
        empty: paths of layers a call of which gave nothing back.
        unread: path of a layer -> what of its results cannot be compared.
        effects: what the calls changed, each as the result of a call named ``effect:`` and the key of the change.
    """

    classes: Dict[str, str] = field(default_factory=dict)
    empty: List[str] = field(default_factory=list)
    unread: Dict[str, str] = field(default_factory=dict)
    effects: List[FunctionCall] = field(default_factory=list)


@dataclass
class Passed(Ran):
    """``repeat``: how far the outputs of two native runs are apart, relative L2.

    ``lost``: ``run number`` of a pass on further inputs that failed -> why. ``asks``: what the model's code asks of the pass that it is in.
    ``idle_casts``: the lines that switch automatic casts on which the device does not know. ``layers``: of a watched pass.
    """

    repeat: float = 0.0
    lost: Dict[str, str] = field(default_factory=dict)
    asks: List[Question] = field(default_factory=list)
    idle_casts: List[str] = field(default_factory=list)
    layers: LayersTold = field(default_factory=LayersTold)


@dataclass(frozen=True)
class Forward(InRuns[Passed], task="forward"):
    """One pass in eval mode.

    Args:
        modules: whether module calls are recorded: ``none``, ``digest`` or ``full``.
        repeat: the native run is done twice.
        draws: sets of inputs that are passed through one after the other: the trees ``inputs``, ``inputs_1``, …; their outputs are
            called ``output``, ``output_1``, ….
        attempt: as in :class:`Load`.
        watched: modules of the source. Where there are any, what a float64 pass changes beside its results is noted, and numbers and
            texts that layers give back are recorded too.
    """

    modules: str = "none"
    repeat: bool = False
    draws: int = 1
    attempt: str = ""
    watched: List[str] = field(default_factory=list)


@dataclass(frozen=True)
class Operations(InRuns[Ran], task="operations"):
    """One pass with every operation watched.

    Args:
        mode: of the adapter.
        backward: also the loss and every gradient.
        steps: training steps in that mode before the pass.
        accumulate: batches of an update in these.
        watch: what becomes of single operations.
        attempt: as in :class:`Load`.
    """

    mode: str = "eval"
    backward: bool = False
    steps: int = 0
    accumulate: int = 1
    watch: Watch = field(default_factory=Watch)
    attempt: str = ""


@dataclass
class Traced:
    """``exhausted``: there were more steps than are kept."""

    exhausted: bool


@dataclass(frozen=True)
class Constants(Task[Traced], task="constants"):
    """Trace how the side comes to its numbers."""


@dataclass
class LoweredPlaces:
    """A line of text for each place that computes in a lower precision, in order.

    ``watched``: whether the framework's operations can be seen.
    """

    lowered: List[str]
    watched: bool = True


@dataclass(frozen=True)
class Lowered(Task[LoweredPlaces], task="lowered"):
    """Watch the element types of one float64 run of a ``stage``.

    ``forward``, ``loss`` or ``backward``, there with its ``mode``; ``infer`` for the predictions of ``paths``, where any operation counts
    that takes or makes rounded numbers of less than float64.
    """

    stage: str
    mode: str = ""
    update: bool = False
    paths: List[str] = field(default_factory=list)


@dataclass
class LossRan(Ran):
    """``repeat``: relative L2 distance of the loss and its gradients between two seeds."""

    repeat: float = 0.0


@dataclass(frozen=True)
class Loss(InRuns[LossRan], task="loss"):
    """The loss of given outputs and labels, and its gradient.

    ``widens``: as of ``Metric``.
    """

    widens: bool = False


@dataclass
class BatchesJudged(Ran):
    """``batches``: how many were there.

    Number of a batch -> why the loss fails on it (``refused``), or how far it is from itself under another seed (``repeats``), in native
    precision.
    """

    batches: int = 0
    refused: Dict[str, str] = field(default_factory=dict)
    repeats: Dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class BatchLosses(InRuns[BatchesJudged], task="batch_losses"):
    """The loss of every recorded batch of an evaluation, without gradients.

    ``widens``: as of ``Metric``.
    """

    widens: bool = False


@dataclass
class AttachedOutputs:
    """Path -> whether anything trainable lies behind an output.

    None where the framework cannot tell.
    """

    attached: Optional[List[Tuple[str, bool]]]


@dataclass(frozen=True)
class Attached(Task[AttachedOutputs], task="attached"):
    """Which outputs training can reach."""


@dataclass
class Curved(Ran):
    """``lacking``: why there is no second gradient, '' where there is one."""

    lacking: str = ""


@dataclass(frozen=True)
class Second(InRuns[Curved], task="second"):
    """The gradient of a gradient with respect to the inputs."""


@dataclass
class FunctionCalls:
    """The calls that were recorded, or made again.

    ``passed``, ``built``: module -> lines that a pass, or the building of a model, ran.
    """

    calls: List[FunctionCall] = field(default_factory=list)
    passed: Dict[str, List[int]] = field(default_factory=dict)
    built: Dict[str, List[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Functions(Task[FunctionCalls], task="functions"):
    """Record the first ``most`` calls of each of the side's functions ``names``.

    With the value ``calls``: make those again.

    ``modules``: those whose lines are watched.
    """

    names: List[str]
    most: int = 4
    modules: List[str] = field(default_factory=list)
