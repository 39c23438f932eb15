"""Both optimizers given the reference's gradients, so that what differs is the rule."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from paralign.capture import Capture, CaptureWriter, clear
from paralign.context import spent
from paralign.locate.optimizer import term_causes as causes
from paralign.model import Manifest, StageResult
from paralign.run.recorder import both
from paralign.worker.protocol import Update, runs_of
from paralign.worker.sides.session import DOUBLE, NATIVE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from paralign.context import Context
    from paralign.weights import Plan

#: steps that are taken, at least; those beyond the recorded ones take them again, times these factors (none above one: clipping must
#: not begin where training had none)
LEAST, FACTORS = 5, (-0.5, 0.25, 0.75, -1.0)


@dataclass
class Experiment:
    """The recorded steps of both sides from equal gradients.

    ``of_group`` says that the entry of a parameter group was named for what differs.
    """

    reference: Capture
    candidate: Capture
    run: str
    plan: Plan
    weights: Capture
    gradients: Capture
    moved: Capture
    given: str
    steps: list[tuple[int, float]]
    followed: tuple[NDArray[Any], NDArray[Any]] | None = None
    of_group: bool = False

    @property
    def abouts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What both optimizers say of themselves.

        ``mapped`` has their parameters under the reference's names.
        """
        first, second = (dict(Update.answer(c).optimizer) for c in (self.reference, self.candidate))
        first["mapped"], second["mapped"] = first["parameters"], {}
        for source in self.plan.sources:
            moves = self.plan.moves_of(source.name)
            own = [second["parameters"].get(m.candidate.name) for m in moves if m.candidate is not None]
            if own and own[0] is not None:
                second["mapped"][source.name] = own[0]
        return first, second

    @property
    def rates(self) -> tuple[list[list[float]], list[list[float]]]:
        """The learning rates of both sides, one a step and group.

        Of a side that tells none those of the other, which may be refuted.
        """
        first, second = (Update.answer(c).rates for c in (self.reference, self.candidate))
        return _filled_in(first, second), _filled_in(second, first)

    def whole_rates(self, parameter: str) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
        """The rates of both sides' whole schedules for a parameter, by the reference's name.

        None where they were not followed.
        """
        if self.followed is None:
            return None
        groups = [about["mapped"].get(parameter, {}).get("group", 0) for about in self.abouts]
        if any(group >= rates.shape[1] for group, rates in zip(groups, self.followed, strict=True)):
            return None
        first, second = (tuple(rates[:, group].tolist()) for group, rates in zip(groups, self.followed, strict=True))
        return first, second

    def rates_differ(self, steps: int) -> bool:
        """Whether both optimizers tell of other rates in the first steps, in as many groups."""
        first, second = self.rates
        return any(map(_other_rates, first[:steps], second[:steps]))


def _filled_in(own: list[list[float]], other: list[list[float]]) -> list[list[float]]:
    """The rates of every step.

    Where a side tells none, the other's first, and 1 where that tells none either.
    """
    return [rates or others[:1] or [1.0] for rates, others in zip(own, other, strict=True)]


def _other_rates(one: list[float], other: list[float]) -> bool:
    """Whether the rates of one step differ by more than storing them does, in as many groups."""
    if len(one) != len(other):
        return False
    return any(abs(a - b) > causes.STORED * max(abs(a), abs(b)) for a, b in zip(one, other, strict=True))


@dataclass(frozen=True)
class Given:
    """Gradients that are given to both optimizers.

    ``steps`` says which of the recorded ones, times what; ``name`` is the captures'.

    ``mode``: the mode of the passes that left them.

    ``whole``: pairs are added also where all parameters move alike, and a schedule that differs later needs no other experiment.
    """

    gradients: Capture
    steps: list[tuple[int, float]]
    name: str = "update"
    whole: bool = False
    mode: str = "eval"

    @classmethod
    def of(cls, gradients: Capture, count: int, mode: str = "eval") -> Given:
        """The gradients of so many recorded steps, and some of them again."""
        again = [(n % count, FACTORS[n % len(FACTORS)]) for n in range(max(0, LEAST - count))]
        return cls(gradients, [*((n, 1.0) for n in range(count)), *again], mode=mode)


def record_steps(context: Context, given: Given, result: StageResult) -> Experiment | None:
    """Both sides' steps; None where the reference recorded no gradients that could be given."""
    if context.plan is None or context.weights is None:
        return None
    gradients, steps, name = given.gradients, given.steps, given.name
    recorded = [run for run in (f"{DOUBLE}:{given.mode}", f"{NATIVE}:{given.mode}") if run in runs_of(gradients).runs]
    if not recorded:
        return None
    run = recorded[0]
    orders = [Update([DOUBLE, NATIVE], run, steps, context.settings.pace.steps_between(side)) for side in (0, 1)]
    moved = _moved(context, given, run)
    reference, candidate = both(
        lambda: context.reference.record(name, orders[0], {"gradients": gradients}),
        lambda: context.candidate.record(name, orders[1], {"gradients": moved}),
    )
    spent(result, reference, candidate)
    answers = [Update.answer(capture) for capture in (reference, candidate)]
    for precision in (DOUBLE, NATIVE):
        if all(precision in answer.runs for answer in answers):
            return Experiment(reference, candidate, precision, context.plan, context.weights, gradients, moved, run, steps, context.rates)
    if given.whole:
        reasons = dict.fromkeys(why for answer in answers for why in answer.failed.values())
        result.warnings.append(f"no update from equal gradients could be made: {'; '.join(reasons)}")
    return None


def _moved(context: Context, given: Given, run: str) -> Capture:
    """The reference's gradients in the candidate's layout, as a capture for the candidate.

    Each experiment has a folder of its own: a later stage may take the steps of an earlier one again.
    """
    gradients, count = given.gradients, 1 + max(step for step, _ in given.steps)
    folder, plan = context.candidate.folder / f"gradients-{given.name}", context.plan
    if plan is None:
        raise AssertionError("the weights are carried over before the backward stage")
    clear(folder)
    key = hashlib.sha256(repr([gradients.manifest.settings.get("key"), run, count, plan.rows()]).encode()).hexdigest()
    with CaptureWriter(folder, Manifest(side="candidate", stage="backward", settings={"key": key})) as writer:
        for step in range(count):
            held = {r.name: r for r in gradients.select(role="gradient", run=run, step=step) if r.location is not None}
            for target in plan.targets:
                value = plan.assemble(target.name, lambda name: gradients.value(held[name]) if name in held else None)  # noqa: B023 - called at once
                if value is not None:
                    writer.add(target.name, value, role="gradient", run=run, step=step)
    return Capture.open(folder)
