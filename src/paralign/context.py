"""What every stage works with.

The two recorders, the settings, the inputs, what each side can do.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from paralign.errors import WorkerFailed, nearest
from paralign.model import NOT_TESTED, Pass, StageResult
from paralign.registry import BY_NAME, SIGNATURES
from paralign.run import inputs as tensors
from paralign.run.recorder import both
from paralign.worker.protocol import Evaluate, InRuns, runs_of
from paralign.worker.sides.session import DOUBLE, HALVES, NATIVE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from paralign.capture import Capture
    from paralign.dtypes import Typed
    from paralign.model import Finding, Pair, Record
    from paralign.run.project import Settings
    from paralign.run.recorder import Recorder
    from paralign.weights import Plan
    from paralign.worker.protocol import Description, Task

R = TypeVar("R", bound=InRuns[Any])

#: runs with perturbed inputs, which measure the reference's noise where it has no float64 run
PERTURBED = ("perturbed-0", "perturbed-1", "perturbed-2")

#: batches after which the loader of the metric is not followed to the last one: each is run through the model
FOLLOWED = 64


#: likeness from which a function of the side's own is held to be a misspelt one: ``build_modle``, ``los``, ``metrics``
LIKE = 0.8


@dataclass
class Clipping:
    """One optimizer clips gradients by itself, the other does not.

    An experiment with the optimizers alone has found that.

    ``side`` clips (0: the reference), by ``kind`` to ``threshold``; ``alone``: nothing else differs. ``pairs`` are of the experiment.
    ``excused``: the own steps were seen to make up for it; ``unreached``: none of them is large enough to show it.
    ``groups``: the number of each parameter's group on that side.
    """

    side: int
    kind: str
    threshold: float
    alone: bool
    finding: Finding
    pairs: list[Pair]
    excused: bool = False
    unreached: bool = False
    groups: dict[str, int] = field(default_factory=dict)


@dataclass
class Context:
    """One check under way.

    ``weights`` is the reference's recorded state and ``plan`` how it was carried over, once that is done. ``artifacts`` maps a
    stage to the captures that it judged, for the reports that need values. ``unlabelled``: nobody gives labels, and the loss is called
    with None in their place. ``drawn``: the model draws random numbers in eval mode; known once the outputs
    were judged (``forwarded``). ``guessed``: some weights
    are where order and use suggest, and no run has proven it. ``used``: stage -> path -> fingerprint of the files behind its captures,
    under '' of those that every stage needs. ``replays``: what passes with the reference's draws came to, by mode.
    ``inseparable``: the captures of the forward pass whose samples cannot be watched without the others, as was tried.
    ``untested``: what differs in the loss without effect on any value. ``part`` is added to the
    names of captures, so that those of several splits lie beside each other. ``untraced``: side -> why its expressions could not be
    followed, or not all of them, in the stage under way. ``stages`` are those that the check was asked for.
    """

    reference: Recorder
    candidate: Recorder
    settings: Settings
    inputs: Capture | None = None
    labels: Capture | None = None
    about: dict[str, Description] = field(default_factory=dict)
    artifacts: dict[str, tuple[Capture, Capture]] = field(default_factory=dict)
    unlabelled: bool = False
    weights: Capture | None = None
    plan: Plan | None = None
    drawn: bool = False
    forwarded: bool = False
    clipping: Clipping | None = None
    #: the rules of both optimizers, parameter -> terms, where they were shown to differ by what no port can avoid, and by nothing else
    inherent: tuple[Mapping[str, Any], Mapping[str, Any]] | None = None
    #: the rates of both sides' whole schedules, as far as the stage ``optimizer`` followed them; shape ``(steps, groups)``
    rates: tuple[NDArray[Any], NDArray[Any]] | None = None
    guessed: bool = False
    #: tensors that names leave without a counterpart while the other side has some left over: what runs on the others shows nothing
    unplaced: int = 0
    used: dict[str, dict[str, str]] = field(default_factory=dict)
    replays: dict[str, Any] = field(default_factory=dict)
    inseparable: tuple[Capture, Capture] | None = None
    untested: list[str] = field(default_factory=list)
    part: str = ""
    untraced: dict[str, str] = field(default_factory=dict)
    stages: list[str] = field(default_factory=list)
    #: the values of parameters that stages have moved, by the reference's name; empty where the weights are as they were carried over
    moved: dict[str, Typed] = field(default_factory=dict)
    #: when the first faulty line was confirmed, in seconds of ``time.perf_counter``; None where none was
    confirmed_at: float | None = None

    @property
    def halves_apart(self) -> bool:
        """Whether one side's native outputs alone are float16 or bfloat16.

        The forward pass has shown that; without it none are known to be.
        """
        captures = self.artifacts.get("forward", ())
        halves = [any(r.dtype in HALVES for r in capture.select(name="output", run=NATIVE)) for capture in captures]
        return len(set(halves)) > 1

    def note_confirmed(self, moments: Sequence[float]) -> None:
        """Note when faulty lines were confirmed; the first moment of a check counts."""
        known = [] if self.confirmed_at is None else [self.confirmed_at]
        self.confirmed_at = min([*known, *moments], default=None)

    def note_used(self, stage: str) -> None:
        """Note the files behind the captures of a stage.

        Those that were asked for since the last call.
        """
        earlier = self.used.get("weights", {}) if stage and BY_NAME[stage].needs_weights else {}
        files = {**earlier, **self.used.get("", {})}
        for recorder in (self.reference, self.candidate):
            files = {**recorder.depended_on, **files}  # a file that was edited meanwhile counts as it was first: that is what was imported
            recorder.depended_on.clear()
        self.used[stage] = files

    def of_split(self, split: str, number: int) -> Context:
        """The same check on another split of the data, with captures of its own.

        Those of the first are what reports take.
        """
        artifacts = self.artifacts if number == 0 else {}
        return replace(self, settings=replace(self.settings, split=split), artifacts=artifacts, part=f"split-{number}" if number else "")

    @property
    def modes(self) -> list[str]:
        """The modes in which training steps are compared.

        Not eval mode where the model draws random numbers there.
        """
        return [mode for mode in self.settings.modes if mode != "eval" or not self.drawn]

    @property
    def weights_of_reference(self) -> list[Record]:
        """The reference's state as it was recorded."""
        return [] if self.weights is None else self.weights.records

    def framework(self, side: str) -> str:
        """The framework of a side."""
        return self.about[side].framework

    @property
    def explains(self) -> bool:
        """Whether causes and lines are looked for: not where only verdicts are asked."""
        return not self.settings.verdict_only

    @property
    def observed(self) -> bool:
        """Whether single operations of both sides can be watched."""
        return all(self.about[side].observes for side in ("reference", "candidate"))

    def has(self, side: str, function: str) -> bool:
        """Whether a side has a function."""
        return function in self.about[side].functions

    def has_both(self, function: str) -> bool:
        """Whether both sides have a function."""
        return self.has("reference", function) and self.has("candidate", function)

    def lacking(self, stage: str, *functions: str) -> StageResult | None:
        """The result ``not tested`` of a stage whose functions a side lacks, else None."""
        notes: list[str] = []
        lacks: list[str] = []
        for function in functions:
            without = [side for side in ("reference", "candidate") if not self.has(side, function)]
            if without:
                who = "neither side has" if len(without) == 2 else f"the {without[0]} has no"  # noqa: PLR2004 - both of two
                notes.append(f"{who} {SIGNATURES[function]}{self._misspelt(function, without)}")
                where = "" if len(without) == 2 else f" in the {without[0]}"  # noqa: PLR2004 - both of two
                lacks.append(f"{SIGNATURES[function]}{where}")
        return StageResult(stage, NOT_TESTED, notes=notes, lacks=lacks) if notes else None

    def _misspelt(self, function: str, without: list[str]) -> str:
        """What to say where a side that lacks a function defines one of nearly its name."""
        near = [(side, nearest(function, self.about[side].others, LIKE)) for side in without]
        told = [f"the {side} defines {name!r}" for side, name in near if name is not None]
        return f"; {' and '.join(told)}: was {function!r} meant?" if told else ""

    def untrainable(self, stage: str) -> StageResult | None:
        """The result ``not tested`` of a stage without a framework's gradients, else None."""
        without = [side for side in ("reference", "candidate") if not self.about[side].trains]
        if without:
            return StageResult(
                stage, NOT_TESTED, notes=[f"the {side}'s framework {self.framework(side)} has no gradients" for side in without]
            )
        return None

    def record_both(
        self,
        name: str,
        order: Task[Any],
        values: dict[str, Capture] | None = None,
        candidate: Task[Any] | None = None,
    ) -> tuple[Capture, Capture]:
        """The same task on both sides at once; ``candidate``: with other options on that side."""
        folder = f"{name}-{self.part}" if self.part else name
        captures = both(
            lambda: self.reference.record(folder, order, values),
            lambda: self.candidate.record(folder, candidate or order, values),
        )
        self.artifacts[name] = captures
        return captures

    def record_runs(self, order: R, values: dict[str, Capture], sparing: R | None = None) -> tuple[Capture, Capture]:
        """A task on both sides, in float64 and natively.

        Where the reference has no float64 run, with its perturbed runs instead.

        Args:
            order: the task; ``runs`` are both.
            values: captures that it reads.
            sparing: what the candidate is asked as long as the reference runs in float64.
        """
        name = order.task
        reference, candidate = self.record_both(name, order, values, sparing)
        answer = runs_of(reference)
        failed = {run: reason for run, reason in answer.failed.items() if Pass.of(run).precision == DOUBLE}
        if failed:
            reference = self.reference.record(f"{name}-perturbed", replace(order, runs=[NATIVE, *PERTURBED]), values)
            runs_of(reference).failed = failed
            if sparing is not None:
                candidate = self.candidate.record(f"{name}-full", order, values)
            self.artifacts[name] = reference, candidate
        return reference, candidate

    def record_labelled(self, order: R, values: dict[str, Capture], sparing: R | None = None) -> tuple[Capture, Capture] | StageResult:
        """:meth:`record_runs` with the labels.

        Where nobody gives any, with None, for a loss that needs none.

        Returns:
            The captures; the result ``not tested`` where the reference's loss cannot do without labels.
        """
        alone = self.labels is None
        if self.labels is None:
            self.labels, self.unlabelled = tensors.save(self.reference.folder / "no-labels", "labels", None), True
        try:
            return self.record_runs(order, {**values, "labels": self.labels}, sparing)
        except WorkerFailed as failed:
            if not alone or failed.side != "reference":
                raise
            self.labels, self.unlabelled = None, False
            why = f"loss(outputs, None) fails in the reference with {failed.type}: {failed.message}"
            note = f"no labels: define labels() in the reference, or set [labels]; {why}"
            return StageResult(order.task, NOT_TESTED, notes=[note], lacks=["labels() in the reference"])

    @property
    def label_notes(self) -> list[str]:
        """What is to be said of a stage that used the loss."""
        return ["no labels: the loss was called with None in their place"] if self.unlabelled else []

    def evaluation(self, *, given: bool = False) -> Capture:
        """The reference's outputs and labels, batch by batch.

        ``given``: of the check's inputs, although there is a loader.
        """
        values = {n: c for n, c in (("inputs", self.inputs), ("labels", None if self.unlabelled else self.labels)) if c is not None}
        order = Evaluate(self.settings.split, self.settings.batches, self.settings.most or FOLLOWED, given)
        return self.reference.record("evaluation-given" if given else "evaluation", order, values)


def spent(result: StageResult, reference: Capture, candidate: Capture) -> StageResult:
    """The result with the time and the peak memory of both sides added."""
    for side, capture in (("reference", reference), ("candidate", candidate)):
        result.seconds[side] = result.seconds.get(side, 0.0) + capture.manifest.resources.get("seconds", 0.0)
        result.peak_bytes[side] = max(result.peak_bytes.get(side, 0.0), capture.manifest.resources.get("peak_bytes", 0.0))
        result.notes += [f"{side}: {note}" for note in capture.manifest.notes]
    return result
