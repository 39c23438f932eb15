"""Both sides' own training steps as they were recorded.

They were taken on the check's inputs or on the reference's first batches.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.comparison import compare_pair, measure
from paralign.context import PERTURBED
from paralign.dtypes import is_whole, typed, widen
from paralign.errors import WorkerFailed
from paralign.model import Noise
from paralign.stages.common.judging import Noises
from paralign.stages.steps import resolution, running
from paralign.worker.protocol import Batch, Feed, OwnStepped, OwnSteps
from paralign.worker.sides.session import DOUBLE, NATIVE

if TYPE_CHECKING:
    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.dtypes import Typed
    from paralign.model import Pair, Record
    from paralign.stages.common.judging import Method

#: as the task calls them
RESEEDED = "reseeded"


@dataclass
class Steps:
    """Both sides' recorded steps on the ``given`` batches.

    ``alone`` are the parts of what they return that one side alone has, ``refused`` is what a side said of the check's inputs,
    ``later`` what the reference said of the loader's first batches, so that all steps are on the very first.
    ``native`` are the reference's steps in its own precision with equal draws, where the noise is to be measured there.
    """

    context: Context
    reference: Capture
    candidate: Capture
    given: dict[str, Capture]
    alone: set[str] = field(default_factory=set)
    refused: WorkerFailed | None = None
    native: Capture | None = None
    later: WorkerFailed | None = None

    @property
    def answers(self) -> tuple[OwnStepped, OwnStepped]:
        """What both workers said."""
        return OwnSteps.answer(self.reference), OwnSteps.answer(self.candidate)

    @property
    def batches(self) -> int:
        """How many batches the steps are taken on, one after the other."""
        given = self.given["inputs"]
        return Feed.answer(given).batches if given.manifest.stage == Feed.task else 1

    def values(self, role: str, runs: tuple[str, str], step: int, call: int = 0) -> list[tuple[Record, Record | None, Typed, Typed | None]]:
        """Records of a role by the reference's names, the candidate's in its layout."""
        if self.context.plan is None:
            return []
        plan = self.context.plan
        ours = {r.name: r for r in self.reference.select(role=role, run=runs[0], step=step) if r.call == call and r.location is not None}
        theirs = {r.name: r for r in self.candidate.select(role=role, run=runs[1], step=step) if r.call == call and r.location is not None}

        def fetch(name: str) -> Typed | None:
            return self.candidate.value(theirs[name]) if name in theirs else None

        found = []
        for source in plan.sources:
            first = ours.get(source.name)
            if first is None or source.attrs.get("shared"):
                continue
            parts = [theirs[r.name] for r in plan.candidates_of(source.name) if r.name in theirs]
            whole = plan.restore(source.name, fetch)
            if whole is None and not parts:
                parts, whole = self._of_other_role(source, role, runs[1], step)
                if whole is None and not parts and self._is_still(first):
                    continue  # a buffer there, of which later steps record nothing
            found.append((first, next(iter(parts), None), self.reference.value(first), whole))
        return found

    def _is_still(self, record: Record) -> bool:
        """Whether a parameter of the reference that is a buffer of the candidate's has not moved."""
        if self.context.plan is None or record.role != "parameter":
            return False
        theirs = self.context.plan.candidates_of(record.name)
        return bool(theirs) and all(each.role == "buffer" for each in theirs) and not self.reference.array(record).any()

    def _of_other_role(self, source: Record, role: str, run: str, step: int) -> tuple[list[Record], Typed | None]:
        """What the candidate recorded of a tensor that is a buffer on one side alone.

        Of a parameter its change is recorded, of a buffer what it then holds; both started from the reference's.
        """
        plan, weights = self.context.plan, self.context.weights
        other = {"parameter": "buffer", "buffer": "parameter"}.get(role)
        if plan is None or weights is None or other is None:
            return [], None
        theirs = {r.name: r for r in self.candidate.select(role=other, run=run, step=step) if r.location is not None}
        parts = [theirs[r.name] for r in plan.candidates_of(source.name) if r.name in theirs]
        whole = plan.restore(source.name, lambda name: self.candidate.value(theirs[name]) if name in theirs else None)
        held = [r for r in weights.records if r.name == source.name and r.location is not None]
        if whole is None or not held:
            return [], None
        before = widen(weights.value(held[0])).astype(np.float64)
        given = widen(whole).astype(np.float64)
        return parts, typed(given + before if role == "buffer" else given - before)

    def pairs(self, method: Method, step: int) -> list[Pair]:
        """What a step returned, and what it and those before changed, measured and judged."""
        runs = method.reference_run, method.candidate_run
        noises, pairs = Noises(self.reference, method), []
        ends = [
            {r.leaf: r for r in c.select(name="result", run=run, step=step)}
            for c, run in zip((self.reference, self.candidate), runs, strict=True)
        ]
        for leaf in dict.fromkeys([*ends[0], *ends[1]]):
            one, other = ends[0].get(leaf), ends[1].get(leaf)
            if one is None or other is None:
                self.alone.add(leaf)
                continue
            held = [c.value(r) if r.location is not None else None for c, r in ((self.reference, one), (self.candidate, other))]
            pairs.append(compare_pair(f"own result_{step}{'.' + leaf if leaf else ''}", one, other, held[0], held[1]))
        pairs += [*self._held("parameter", "change", runs, step), *self._held("buffer", "buffer", runs, step)]
        framework = self.context.framework("reference")
        for pair in pairs:
            pair.noise = noises.of(pair.reference) if pair.reference is not None else None
            share = running.kept(pair.reference, framework)
            if pair.noise is not None and share is not None:
                pair.noise = max(pair.noise, running.stored(share), key=lambda n: n.value)
            own = self._native_noise(pair.reference)
            storing = self._storing_noise(pair, method, step)
            for further in (own, storing):
                if pair.noise is not None and further is not None:
                    pair.noise = max(pair.noise, further, key=lambda n: n.value)
        return pairs

    def whole_numbers(self, method: Method, step: int) -> list[Pair]:
        """The buffers of whole numbers after a step, measured."""
        held = self._held("buffer", "buffer", (method.reference_run, method.candidate_run), step)
        return [pair for pair in held if all(record is not None and is_whole(record.dtype) for record in (pair.reference, pair.candidate))]

    def _held(self, role: str, word: str, runs: tuple[str, str], step: int) -> list[Pair]:
        """The pairs of a role."""
        found = self.values(role, runs, step)
        return [compare_pair(f"own {word}_{step} {r.name}", r, second, here, there, how="weights") for r, second, here, there in found]

    def _storing_noise(self, pair: Pair, method: Method, step: int) -> Noise | None:
        """What storing a parameter makes of its change, where native steps are compared."""
        record, weights = pair.reference, self.context.weights
        if NATIVE not in (method.reference_run, method.candidate_run) or record is None or record.role != "parameter":
            return None
        if weights is None or pair.stats is None or not pair.stats.rms_reference:
            return None
        held = [each for each in weights.select(name=record.name, role="parameter") if each.location is not None]
        if not held:
            return None
        size = resolution.rms(weights.array(held[0]))
        return resolution.storing_noise(held[0].dtype, size, pair.stats.rms_reference, step + 1)

    def _native_noise(self, record: Record | None) -> Noise | None:
        """How far a value of the reference lies from that of its native steps with equal draws."""
        if self.native is None or record is None or record.location is None:
            return None
        for twin in self.native.select(role=record.role, name=record.name, run=NATIVE, step=record.step):
            if (twin.leaf, twin.call) != (record.leaf, record.call) or twin.location is None:
                continue
            if twin.shape != record.shape:
                return None
            away = measure(self.reference.value(record), self.native.value(twin), shown=False).rel_l2
            return Noise(away, "the reference's float64 run against its native run, with equal draws")
        return None


def record_steps(context: Context) -> Steps | None:
    """Both sides' steps on the first batches of the reference's own loader.

    That is where the check's inputs are its first one. Else all steps are on the check's inputs; where a side cannot take those, on the
    loader's all the same.

    Raises:
        WorkerFailed: what a side said of the check's inputs, where there are no such batches; of these, where it cannot take them either.
    """
    if context.inputs is None or context.labels is None:
        return None
    later: WorkerFailed | None = None
    if _is_of_loader(context) and context.settings.steps > 1:
        try:
            fed = context.reference.record("own steps feed", Feed(context.settings.split, context.settings.steps))
            return _recorded(context, {"inputs": fed, "labels": fed})
        except WorkerFailed as failed:
            if failed.side == "candidate":
                raise  # the reference's step has taken these batches
            later = failed  # on a later batch, perhaps: the first one alone may do
    try:
        return replace(_recorded(context, {"inputs": context.inputs, "labels": context.labels}), later=later)
    except WorkerFailed as failed:
        if later is not None or not context.has("reference", "build_dataloader"):
            raise
        try:
            fed = context.reference.record("own steps feed", Feed(context.settings.pace.split, context.settings.steps))
        except WorkerFailed:
            raise failed from None  # the loader says nothing of the step
        return replace(_recorded(context, {"inputs": fed, "labels": fed}), refused=failed)


def _is_of_loader(context: Context) -> bool:
    """Whether inputs and labels are the first batch that the reference's loader gives."""
    return all(given is not None and given.manifest.stage == Batch.task for given in (context.inputs, context.labels))


def _recorded(context: Context, values: dict[str, Capture]) -> Steps:
    runs, orders = [DOUBLE, NATIVE, RESEEDED], orders_of(context)
    ours, theirs = replace(orders[0], runs=[*runs, *PERTURBED]), replace(orders[1], runs=runs)
    reference, candidate = context.record_both("own steps", ours, values, theirs)
    return Steps(context, reference, candidate, values)


def enlarged(steps: Steps, method: Method, factor: float) -> Steps | None:
    """The same steps of a loss so many times as large, in the runs that are judged.

    They must not be random. None where a side cannot take them.
    """
    runs = method.reference_run, method.candidate_run
    ours, theirs = (replace(each, enlarged=factor) for each in orders_of(steps.context))
    ours, theirs = replace(ours, runs=[DOUBLE, NATIVE, *PERTURBED]), replace(theirs, runs=[runs[1]])
    try:
        reference, candidate = steps.context.record_both("own steps enlarged", ours, steps.given, theirs)
    except WorkerFailed:
        return None
    if any(run not in OwnSteps.answer(capture).runs for capture, run in zip((reference, candidate), runs, strict=True)):
        return None
    return replace(steps, reference=reference, candidate=candidate, alone=set())


def orders_of(context: Context) -> tuple[OwnSteps, OwnSteps]:
    """The steps of both sides in float64: how many, and how often schedules go on."""
    ours, theirs = (OwnSteps([DOUBLE], context.settings.steps, context.settings.pace.steps_between(side)) for side in (0, 1))
    return ours, theirs


def is_random(capture: Capture) -> bool:
    """Whether the native steps differ under another seed."""
    results = [r for r in capture.records if r.role in ("scalar", "parameter")]
    native, reseeded = ({(r.name, r.leaf, r.step): r for r in results if r.run == run} for run in (NATIVE, RESEEDED))
    for key, record in native.items():
        if record.location is None or key not in reseeded:
            continue
        one, other = capture.array(record), capture.array(reseeded[key])
        if not np.array_equal(one, other, equal_nan=one.dtype.kind in "fc"):
            return True
    return False


def first_gradients(steps: Steps, method: Method) -> dict[str, tuple[Any, Any]]:
    """The gradients that reach the first update, by name, a pair where both are known."""
    found = steps.values("gradient", (method.reference_run, method.candidate_run), 0)
    return {first.name: (here.array, there.array) for first, _, here, there in found if there is not None and here.array.size}
