"""The optimizer: schedules, settings, and updates from equal gradients.

No forward pass is run.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from paralign.capture import Capture, CaptureWriter, clear
from paralign.context import spent
from paralign.locate.provenance.settings import optimizer_settings
from paralign.model import ALIGNED, DIVERGED, UNDERPOWERED, Coverage, Listing, Manifest, Pair, StageResult, Tolerance, Unjudged
from paralign.run import inputs as tensors
from paralign.run.pace import EPOCH, ITERATION
from paralign.stages.backward import made_up, own_step_judging
from paralign.stages.common.judging import conclude
from paralign.stages.common.places import Kind, key_of
from paralign.stages.optimizer import groups, resumption
from paralign.stages.steps import equal_gradients, native_updates, rate_schedules, shared_rates, update_explaining
from paralign.worker.protocol import Measures, Ran, Schedule, Scheduled
from paralign.worker.protocol.wire import encode
from paralign.worker.sides.session import DOUBLE

if TYPE_CHECKING:
    from paralign.context import Context
    from paralign.model import Divergence
    from paralign.run.pace import Pace
    from paralign.stages.steps.rate_schedules import Followed

#: steps of a schedule that are followed where nobody says how long the training is: about a second
STEPS = 100_000

#: seconds after which a schedule is followed no further: 10**6 steps of the frameworks' own take up to 10
PATIENCE = 60.0

#: which drawn gradients are given, times what: epsilons show in the first step, thresholds of clipping in the larger ones
GIVEN = [(0, 1e-6), (1, 1e-3), (0, 1.0), (1, -5.0), (0, 0.1)]

#: a metric is asked for so many epochs; the last one is repeated
MEASURED = 1000

#: rows of the table of rates, and rates of a step, the greatest of its groups
ROWS, GROUPS = 8, 3

#: steps of a schedule that a cause is held against
WHOLE = 10_000

#: the artifact with the captures of both schedules
_FOLLOWED = "schedules of optimizer"

METHOD = "rates step by step, updates from equal gradients"


def run(context: Context) -> StageResult:
    """Judge schedule and updates of both optimizers."""
    missing = context.lacking("optimizer", "build_model", "build_optimizer") or context.untrainable("optimizer")
    if missing:
        return missing
    context.clipping = context.rates = None
    result = StageResult("optimizer")
    scheduled = _schedules(context, result)
    experiment, alike = _updates(context, result), False
    if experiment is not None:
        if shared_rates.excused(context, result, context.artifacts[_FOLLOWED], experiment.abouts):
            scheduled = None
        alike = all(p.verdict == ALIGNED for p in result.pairs)
        conclude(result, METHOD)
        result.tables += groups.tell(result, experiment)
        if not own_step_judging.weigh(context, result):
            _say_own_steps(context, result)
        resumption.judge(context, result, experiment, across=alike)
        if not alike and made_up.has_excused(context, result):
            result.notes.append("no update was made from the other side's state: one of the optimizers clips by itself")
    conclude(result, METHOD)
    if experiment is not None and alike:
        native_updates.judge(context, result, experiment, "optimizer")
    if result.verdict == DIVERGED and not (experiment is not None and experiment.of_group):
        optimizer_settings.follow_rates(context, scheduled)
        result.divergence = scheduled or result.divergence
    in_part = any(c.total is not None and c.compared < c.total for c in result.coverage)
    if result.verdict == ALIGNED and (in_part or experiment is None or made_up.is_unreached(context)):
        result.verdict = UNDERPOWERED
    return result


def _say_own_steps(context: Context, result: StageResult) -> None:
    """Say that a program's own steps were not run here.

    They may clip or scale gradients before the update. A note is enough where the same check compares both sides' steps.
    """
    having = [side for side in ("reference", "candidate") if context.has(side, "train_step")]
    given = None not in (context.inputs, context.labels, context.plan)
    if given and context.has_both("train_step") and "backward" in context.stages:
        result.notes.append(
            "gradients were handed to the optimizers alone: what train_step does with them is compared by the stage backward"
        )
    elif having:
        result.warnings.append(
            f"train_step of the {' and the '.join(having)} was not run here: gradients were handed to the optimizers alone. "
            "What it does between gradients and update (clipping, scaling) is compared by the stage backward"
        )


# -- the schedule ------------------------------------------------------------------------------------------------------------------


def _schedules(context: Context, result: StageResult) -> Divergence | None:
    """Follow both schedules and a resumed one; gives the first difference."""
    pace = context.settings.pace
    measures = _measures(context)
    captures = context.artifacts[_FOLLOWED] = context.record_both("optimizer", _order(context, 0), measures, _order(context, 1))
    spent(result, *captures)
    answers = [Schedule.answer(c) for c in captures]
    _say_lengths(context, result, answers)
    every = rate_schedules.every(pace)
    sides = [rate_schedules.Followed.read(c, each) for c, each in zip(captures, every, strict=True)]
    resumed = [rate_schedules.Followed.read(c, each, "resumed") for c, each in zip(captures, every, strict=True)]
    if sides[0] is None or sides[1] is None:
        return None
    both = sides[0], sides[1]
    followed = min(WHOLE, *(side.steps for side in both if side.scheduled)) if any(side.scheduled for side in both) else 0
    context.rates = (both[0].until(followed), both[1].until(followed)) if followed else None
    result.notes += _told_of_metrics(answers, bool(pace.metric))
    tolerance, counted = context.settings.tolerance_of("optimizer"), rate_schedules.unit(pace)
    if not any(side.scheduled for side in both):
        result.notes.append("neither side has a schedule: the rates of the update below are those of the whole training")
        return None
    found = rate_schedules.compared(result, both, tolerance, counted)
    _complete(context, result, both, answers)
    result.tables.append(_table(both, pace, tolerance))
    pair = _resume(result, both, (resumed[0], resumed[1]), answers)
    if pair.wrong and answers[1].schedule.stock and answers[1].schedule.forgotten and not context.settings.strict:
        _leave_out_stock(result, pair, answers[1])
    if find_spec("matplotlib") is None:
        result.notes.append("no plot of the rates: it needs matplotlib (pip install 'paralign[plot]')")
    return found


def _order(context: Context, side: int) -> Schedule:
    pace = context.settings.pace
    known = rate_schedules.asked(pace, side)
    unknown = pace.epochs is not None and known is None
    return Schedule(
        count=0 if unknown else known or STEPS,
        by_update=pace.step_on[side] == ITERATION,
        patience=min(PATIENCE, context.settings.patience * 3),
        loader=pace.split if unknown else "",
        epochs=pace.epochs or 1,
        accumulate=pace.accumulate,
        otherwise=STEPS,
    )


def _measures(context: Context) -> dict[str, Capture]:
    """The metric that schedules are given: the project's list, or a side's own function.

    Of ``schedule_metric``, the reference's comes first.
    """
    pace = context.settings.pace
    if pace.metric:
        return {"measures": tensors.save(context.reference.folder / "measures", "measures", np.array(pace.metric))}
    order = Measures(min(pace.epochs or MEASURED, MEASURED))
    for side, recorder in (("reference", context.reference), ("candidate", context.candidate)):
        if context.has(side, "schedule_metric"):
            return {"measures": recorder.record("measures", order)}
    return {}


def _told_of_metrics(answers: list[Scheduled], listed: bool) -> list[str]:
    waiting = [side for side, a in zip(("reference", "candidate"), answers, strict=True) if a.schedule.metric]
    if not waiting:
        return []
    who = "both schedules wait" if len(waiting) > 1 else f"the {waiting[0]}'s schedule waits"
    if any(a.schedule.made_up for a in answers):
        told = f"{who} for a metric, which was made up: it falls, stands still, rises, stands still, and again"
        return [f"{told}; give your own as [training] schedule_metric = [...] or schedule_metric(epoch)"]
    given = "[training] schedule_metric" if listed else "schedule_metric(epoch)"
    return [f"{who} for a metric: both were given that of {given}, the last value repeated after its end"]


def _say_lengths(context: Context, result: StageResult, answers: list[Scheduled]) -> None:
    """Say where the data loaders of the sides are not of one length, or no length is known."""
    lengths = [a.batches for a in answers]
    pace = context.settings.pace
    if pace.epochs is None:
        result.notes.append("how long the training is was not said: set [training] epochs and steps_per_epoch to follow the whole schedule")
    elif None not in lengths and lengths[0] != lengths[1]:
        result.warnings.append(
            f"an epoch has {lengths[0]} batches in the reference and {lengths[1]} in the candidate (drop_last?): "
            f"their schedules end after {answers[0].asked:,} and {answers[1].asked:,} steps"
        )
    elif None in lengths and any(rate_schedules.asked(pace, side) is None for side in (0, 1)):
        result.warnings.append("no data loader says how many steps an epoch has: set [training] steps_per_epoch")


def _complete(context: Context, result: StageResult, both: tuple[Followed, Followed], answers: list[Scheduled]) -> None:
    """Say of how many steps of the training the rates were compared, where that is known."""
    pace = context.settings.pace
    covered = next((c for c in result.coverage if c.what == rate_schedules.RATES), None)
    if covered is None or pace.epochs is None:
        return
    whole = max(a.asked * each for a, each in zip(answers, rate_schedules.every(pace), strict=True))
    covered.total = whole
    ended = [side for side in both if side.ended]
    if covered.compared < whole and not ended:
        result.warnings.append(f"the schedules could be followed for {covered.compared:,} of {whole:,} steps only")


def _resume(
    result: StageResult, both: tuple[Followed, Followed], resumed: tuple[Followed | None, Followed | None], answers: list[Scheduled]
) -> Pair:
    """Judge how each side's schedule goes on after it was saved and loaded.

    The side's own uninterrupted one is the measure.
    """
    broken, followed, said = [], [], list[str]()
    for side, name in enumerate(("reference", "candidate")):
        about, again = answers[side].schedule, resumed[side]
        if about.unresumed:
            result.notes.append(f"the {name}'s schedule was not resumed: {about.unresumed}")
        if about.resumed is None or again is None:
            continue
        start = about.resumed
        until = both[side].rates[start : start + len(again.rates)]
        followed.append(len(until))
        wrong = rate_schedules.first_difference(until, again.rates[: len(until)], Tolerance())
        if wrong is not None:
            broken.append(name)
            whole, after = rate_schedules.in_digits(until[wrong][:1], again.rates[wrong][:1])
            told = f"{whole} uninterrupted, {after} resumed"
            if about.forgotten:
                left_out = ", ".join(about.forgotten)
                told = f"{whole} uninterrupted, {after} resumed; its state does not bring back {left_out}"
            said.append(f"the {name}'s schedule, saved after {start} steps and loaded, goes on otherwise at {start + wrong}: {told}")
    result.coverage += [Coverage("resumed rates", min(followed))] if followed else []
    told_by_pair = broken == ["candidate"]
    verdict = DIVERGED if told_by_pair else ALIGNED
    pair = Pair(resumption.RESUMED_SCHEDULE, both[0].record, both[1].record, how="name", verdict=verdict)
    pair.judged = all(each is not None for each in resumed) and broken in ([], ["candidate"])
    pair.notes = said if told_by_pair else []
    result.warnings += [] if told_by_pair else said
    result.pairs += [pair] if any(each is not None for each in resumed) else []
    return pair


def _leave_out_stock(result: StageResult, pair: Pair, answer: Scheduled) -> None:
    """Do not blame a port for what a class of its framework forgets when it is saved."""
    about = answer.schedule
    lost = ", ".join(about.forgotten)
    result.warnings += pair.notes
    result.warnings.append(
        f"{about.class_} of the candidate's framework does not save {lost}: to resume such a training, save that beside the checkpoint "
        "and set it after loading"
    )
    pair.leave_out(Unjudged.INHERENT, "inherent: its framework's own class forgets, whatever a port does")


def _table(both: tuple[Followed, Followed], pace: Pace, tolerance: Tolerance) -> Listing:
    """Rates at some steps of the training, those around the first difference among them."""
    count = min(side.steps for side in both if side.scheduled)
    rates = [side.until(count) for side in both]
    shown = {int(step) for step in np.linspace(0, count - 1, ROWS)}
    wrong = rate_schedules.differing(rates[0], rates[1], tolerance)
    if wrong.any():
        first = int(wrong.argmax())
        shown |= {step for step in (first - 1, first, first + 1) if 0 <= step < count}
    counted = rate_schedules.unit(pace)
    an_epoch = None if counted == EPOCH else pace.steps_per_epoch
    columns = [counted, "reference", "candidate", ""] if an_epoch is None else [counted, "epoch", "reference", "candidate", ""]
    rows = []
    for step in sorted(shown):
        when = [f"{step:,}"]
        if an_epoch is not None:
            when.append(f"{step // an_epoch:,}")
        of_groups = [np.unique(side[step])[::-1][:GROUPS] for side in rates]
        told = rate_schedules.in_digits(*of_groups, alike=not wrong[step])
        rows.append([*when, *told, "≠" if wrong[step] else ""])
    return Listing("learning rate", columns, rows)


# -- updates -----------------------------------------------------------------------------------------------------------------------


def _updates(context: Context, result: StageResult) -> equal_gradients.Experiment | None:
    """Have both sides move from equal drawn gradients; gives what they did."""
    if context.plan is None or context.weights is None:
        result.notes.append("nothing says which tensor is which: no update was compared (see `paralign check weights`)")
        return None
    drawn = _drawn(context)
    given = equal_gradients.Given(drawn, GIVEN, "optimizer-update", whole=True)
    experiment = update_explaining.explain(context, result, given, agreed=True)
    moved = {r.name for r in drawn.records}
    if experiment is None:
        return None
    places = [key_of(pair) for pair in result.pairs if pair.judged]
    compared = sum(1 for place in places if place is not None and place.kind is Kind.CHANGE)
    result.coverage.append(Coverage("parameters", compared, len(moved)))
    result.coverage.append(Coverage("updates", len(GIVEN)))
    return experiment


def _drawn(context: Context) -> Capture:
    """Draw two gradients for every parameter of the reference, of deviation 1."""
    folder = context.reference.folder / "drawn-gradients"
    clear(folder)
    records = [r for r in context.weights_of_reference if r.role == "parameter" and not r.attrs.get("shared") and 0 not in r.shape]
    random = np.random.default_rng(context.settings.seed)
    key = f"drawn {context.settings.seed} {[(r.name, r.shape) for r in records]}"
    run = f"{DOUBLE}:eval"
    settings = {"key": key, "answer": encode(Ran([run]))}
    with CaptureWriter(folder, Manifest(side="reference", stage="optimizer", settings=settings)) as writer:
        for step in (0, 1):
            for record in records:
                if record.attrs.get("trainable", True):
                    writer.add(record.name, random.standard_normal(record.shape), role="gradient", run=run, step=step)
    return Capture.open(folder)
