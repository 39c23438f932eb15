"""Training steps, optimizers and whole trainings: tasks and answers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Tuple

from paralign.worker.protocol.said_once import RandomOperation  # noqa: TC001 - fields' types are looked up
from paralign.worker.protocol.task import InRuns, Raised, Ran, Task
from paralign.worker.protocol.watching_options import Redraw, Watch


@dataclass(frozen=True)
class Ahead:
    """How far a schedule is followed without the model.

    ``count`` steps, one an update or else one an epoch, within ``patience``.
    """

    count: int
    by_update: bool
    patience: float


@dataclass
class Followed:
    """A schedule that was followed.

    Args:
        scheduled: whether there is one; without it one step is recorded.
        built: the line that constructed it, else the optimizer's.
        lines: where there are several optimizers, that line for each group.
        class_: its name.
        metric: whether it waits for one; ``made_up``: whether that was.
        ended: what it raised where it would not go on, else ''.
        resumed: the step at which it was resumed; None where it was not, for the reason ``unresumed``.
        forgotten: attributes of the schedule that were not what they had been when it was saved, once its state was loaded.
        stock: the schedule, and all that it holds, are of a framework's own classes: no edit of the user's makes them remember more.
    """

    scheduled: bool
    built: Optional[str]
    class_: str
    metric: bool
    made_up: bool
    ended: str = ""
    resumed: Optional[int] = None
    unresumed: str = ""
    forgotten: List[str] = field(default_factory=list)
    stock: bool = False
    lines: List[Optional[str]] = field(default_factory=list)


@dataclass
class Stepped(Ran):
    """Training steps.

    Args:
        random: run -> why a model that is random was not trained.
        drawn: run and mode -> of each step the number of random operations, and of those that were given a draw.
        schedule: how the schedule goes on, where that was asked for.
        repeat: mode -> relative L2 distance of the first step's gradients between two seeds; dropout layers are off.
    """

    random: Dict[str, str] = field(default_factory=dict)
    drawn: Dict[str, List[Tuple[int, int]]] = field(default_factory=dict)
    schedule: Optional[Followed] = None
    repeat: Dict[str, float] = field(default_factory=dict)
    optimizer: Dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Backward(InRuns[Stepped], task="backward"):
    """Training steps from the same weights.

    Args:
        modes: ``eval``, ``train``.
        steps: of each; 0: one forward and backward pass, and no optimizer.
        accumulate: batches whose gradients make one update.
        pace: updates between two steps of the schedule.
        ahead: how far the schedule is followed without the model.
        sparing: what a run in lower precision adds is left out where the float64 run succeeded.
        redraw: what becomes of random operations; without it layers that draw are off in train mode.
        anew: put the model's own attributes back before every run: a generator that it keeps begins anew.
    """

    modes: List[str]
    steps: int
    accumulate: int = 1
    pace: int = 1
    ahead: Optional[Ahead] = None
    sparing: bool = False
    redraw: Redraw = field(default_factory=Redraw)
    anew: bool = False


@dataclass
class Scheduled:
    """A schedule; ``batches``: length of the loader where it tells.

    ``asked``: steps that it was to be followed.
    """

    schedule: Followed
    batches: Optional[int]
    asked: int


@dataclass(frozen=True)
class Schedule(Task[Scheduled], task="schedule"):
    """The learning rates of a whole training, and of one that is resumed in its middle.

    Args:
        count: steps of the schedule; 0: ``epochs`` times the updates that the loader's length and ``accumulate`` make, ``otherwise``
            where it does not tell.
        by_update: one step an update, else one an epoch.
        loader: the split of that loader, '' for none.
    """

    count: int
    by_update: bool
    patience: float
    loader: str = ""
    epochs: int = 0
    accumulate: int = 1
    otherwise: int = 0


@dataclass
class Measured:
    """How many were made."""

    measures: int


@dataclass(frozen=True)
class Measures(Task[Measured], task="measures"):
    """What ``schedule_metric(epoch)`` gives for the first epochs."""

    count: int


@dataclass
class Updated(Ran):
    """Updates.

    Args:
        optimizer: what it tells of itself (:func:`paralign.worker.optimization.optimizers.describe`).
        built: ``optimizer`` and ``scheduler`` -> the line that built it.
        arguments: those that the optimizer was made with.
        rates: of each step and group.
        members: where there are several optimizers, for each group what ``built`` is of the one that has it.
    """

    optimizer: Dict[str, Any] = field(default_factory=dict)
    built: Dict[str, Optional[str]] = field(default_factory=dict)
    arguments: Dict[str, Any] = field(default_factory=dict)
    rates: List[List[float]] = field(default_factory=list)
    members: List[Dict[str, Optional[str]]] = field(default_factory=list)

    def sources(self, parameter: str) -> Dict[str, Optional[str]]:
        """The lines that built the optimizer of a parameter, and its schedule."""
        group = self.optimizer.get("parameters", {}).get(parameter, {}).get("group")
        return self.built if group is None or group >= len(self.members) else self.members[group]


@dataclass(frozen=True)
class Update(InRuns[Updated], task="update"):
    """Steps of the optimizer from recorded gradients.

    Args:
        given: the run whose gradients are taken.
        steps: (step, factor): which of them are given, times what.
        pace: updates between two steps of the schedule.
    """

    given: str
    steps: List[Tuple[int, float]]
    pace: int = 1


@dataclass(frozen=True)
class Stepping(InRuns[Ran], task="stepping"):
    """As :class:`Update`, with every operation watched.

    Args:
        watched: names of parameters -> names under which they are outputs.
        apart: operations that do several things at once are recorded step by step too.
    """

    given: str
    steps: List[Tuple[int, float]]
    watched: Dict[str, str]
    apart: bool = False
    pace: int = 1
    watch: Watch = field(default_factory=Watch)
    attempt: str = ""


@dataclass
class Resumed(Ran):
    """``unmapped``: why the optimizer's state cannot be mapped, ''.

    ``unsaved``: whether it has no ``state_dict`` to save it by. ``forgotten``: attributes of an optimizer of the user's own that were not
    what they had been when it was saved, once its state was loaded; ``apart``: whether it keeps them beside the ``state_dict`` of its
    framework, which it leaves as it is and which holds nothing.
    """

    unmapped: str = ""
    unsaved: bool = False
    apart: bool = False
    forgotten: List[str] = field(default_factory=list)


@dataclass(frozen=True)
class Resuming(InRuns[Resumed], task="resuming"):
    """As :class:`Update`, interrupted after ``at`` steps."""

    given: str
    steps: List[Tuple[int, float]]
    at: int
    pace: int = 1


@dataclass
class StateTold:
    """``left``: the names in the file that belong to nothing; ``optimizer``: its class."""

    left: List[str]
    optimizer: str


@dataclass(frozen=True)
class StateRead(Task[StateTold], task="state_read"):
    """Tell what the tensors of a file are of this side's optimizer."""


@dataclass
class StateWritten:
    """The optimizer's class, the updates that it has seen, and whether it has a schedule."""

    optimizer: str
    steps: int
    scheduled: bool


@dataclass(frozen=True)
class StateWrite(Task[StateWritten], task="state_write"):
    """Write a state as this side's programs save their optimizer's."""

    path: str
    pace: int


@dataclass
class OwnStepped(Ran):
    """Steps of the side's own.

    Args:
        updates: run -> calls of the optimizers' ``step`` in each.
        line: where the first was called.
        defined: the line of ``train_step``.
        optimizer: where it was built.
        random: what each step drew, in order, where that was asked for.
    """

    updates: Dict[str, List[int]] = field(default_factory=dict)
    random: List[List[RandomOperation]] = field(default_factory=list)
    line: Optional[str] = None
    defined: Optional[str] = None
    optimizer: Optional[str] = None


@dataclass(frozen=True)
class OwnSteps(InRuns[OwnStepped], task="own_steps"):
    """Steps of the side's ``train_step``.

    The run ``reseeded`` is a native one under another seed.

    Args:
        steps: how many.
        pace: updates between two steps of the schedule.
        redraw: what becomes of random operations, all of which are on then; without it layers that draw are off.
        enlarged: what every gradient is multiplied by as it reaches its parameter: the steps are those of a loss so many times as large.
    """

    steps: int
    pace: int
    redraw: Optional[Redraw] = None
    enlarged: float = 1.0


@dataclass
class OwnBatchTaken:
    """The side's own step on the first batch of its own loader.

    Args:
        ran: the function that was run; '' where the side lacks what it needs, or its loader gave no batch.
        types: leaf of the batch -> its element type, ``text``, or the class of another object.
        raised: what the function raised.
        line: where it is defined.
        watched: whether its operations were counted; not where the weights are no float32, or the framework shows none.
        halves: element types of less than the weights' that operations of a step computed in -> how many did.
        half_line: the user's line of the first of these.
        idle_casts: the lines that switch automatic casts on which the device does not know.
    """

    ran: str = ""
    watched: bool = False
    halves: Dict[str, int] = field(default_factory=dict)
    half_line: Optional[str] = None
    idle_casts: List[str] = field(default_factory=list)
    types: Dict[str, str] = field(default_factory=dict)
    raised: Optional[Raised] = None
    line: Optional[str] = None


@dataclass(frozen=True)
class OwnBatch(Task[OwnBatchTaken], task="own_batch"):
    """The side's own step, natively and uncast, on a batch of its loader.

    Args:
        split: what the loader is built with.
        step: ``train_step``, or ``loss`` or ``metric`` for the model and that of what it gives.
        types: leaf of the batch -> the element type that it is given in, for an experiment.
    """

    split: str
    step: str
    types: Dict[str, str] = field(default_factory=dict)


@dataclass
class LayerMode:
    """A layer that asks for its mode, when a training step calls it first.

    Args:
        name: its path.
        op: its class.
        trains: whether it computes as in train mode.
        line: the user's, ``file:line``, that set its mode last; None where none did.
    """

    name: str
    op: str
    trains: bool
    line: Optional[str] = None


@dataclass
class LayerModesTold(Ran):
    """The modes of layers in a training step.

    Args:
        layers: those that were called and ask for their mode.
        defined: the line of ``train_step``; None where the model alone was called.
        overrides: path of a layer -> the line of its own ``train``, which nobody called when the model was put into train mode.
    """

    layers: List[LayerMode] = field(default_factory=list)
    defined: Optional[str] = None
    overrides: Dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class LayerModes(InRuns[LayerModesTold], task="layer_modes"):
    """The first of the runs that succeeds.

    Args:
        step: whether ``train_step`` is run; the model alone in train mode, if not.
        force: path of a layer -> the mode that it is put into before it is called.
    """

    step: bool
    force: Dict[str, bool] = field(default_factory=dict)


@dataclass
class WitnessTold:
    """The first operation that made what is not finite of what is; its lines, innermost first."""

    op: str
    module: str
    lines: List[str]


@dataclass
class Trained:
    """How a training went.

    Args:
        stopped: kind and why; both '' for one that came to its end.
        models: how many were logged; ``optimizers`` too.
        moves: of each parameter.
        draws: of each step: random operations, and those that were given draws.
        grown: the parameter that grew most.
        witness: of the watched step; ``watched``: whether there was one.
        lines: ``model``, ``optimizer`` -> where it was logged.
        modules: path -> the lines that constructed it.
        batches: why those of the other side were not used, or no more were kept; else ''.
        checkpoints: how many were, or would have been, written by ``log.checkpoint``.
        interrupted: the number of steps before the interruption; None where there was none.
        resumed: ``log.resume`` was called after it.
        outputs: calls of the network within steps, and those whose outputs were replaced.
    """

    stopped: Tuple[str, str]
    steps: int
    epochs: int
    evaluations: int
    models: int
    optimizers: int
    problems: List[str]
    moves: Dict[str, float]
    draws: List[Tuple[int, int]]
    grown: Optional[str]
    witness: Optional[WitnessTold]
    watched: bool
    lines: Dict[str, Optional[str]]
    batches: str
    seconds: float
    modules: Dict[str, List[str]] = field(default_factory=dict)
    checkpoints: int = 0
    interrupted: Optional[int] = None
    resumed: bool = False
    outputs: Tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Train(Task[Trained], task="train"):
    """Run the side's ``train(log)`` once.

    Args:
        seed: of the framework, numpy and ``random``.
        seconds: after which it is stopped.
        steps: after which it is stopped; None for the whole training.
        quiet: layers that draw random numbers are off.
        moved: a seed; before every step each parameter moves by one unit in the last place. None for no move.
        keep: the batches are recorded.
        ends: the parameters are recorded as they are at the end.
        starts: they are recorded as they are when ``log.model`` is called.
        states: steps before which they are recorded.
        draws: ``keep``: what the operations of a step draw is recorded; ``use``: another training's draws take the place of its own.
        outputs: ``keep``: what the network gives in each step is recorded; ``use``: another training's takes the place of its own.
        interrupt: the training ends after its first checkpoint, and a second one goes on from that.
        watch: a step whose operations are watched, to find the first that makes what is not finite.
    """

    seed: int = 0
    seconds: float = math.inf
    steps: Optional[int] = None
    quiet: bool = False
    moved: Optional[int] = None
    keep: bool = False
    ends: bool = False
    starts: bool = False
    states: int = 0
    watch: Optional[int] = None
    draws: str = ""
    interrupt: bool = False
    outputs: str = ""
