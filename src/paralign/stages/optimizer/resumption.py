"""Optimizers that are saved and loaded between two updates.

On each side, and from each side's state on the other.
"""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.capture import Capture, CaptureWriter, clear
from paralign.errors import WorkerFailed
from paralign.model import ALIGNED, DIVERGED, Coverage, Manifest, Noise, Pair, StageResult, Stats, Unjudged
from paralign.worker.protocol import Resuming
from paralign.worker.steps.resuming import add_state, state_of

if TYPE_CHECKING:
    from paralign.context import Context
    from paralign.run.recorder import Recorder
    from paralign.stages.steps.equal_gradients import Experiment
    from paralign.weights import Plan
    from paralign.worker.optimization.optimizer_state import State

#: updates before the interruption
AT = 2

#: how far resumed updates may be from uninterrupted ones, relative: some kernels keep states in float32
SAME = 1e-5

#: attributes that are named as forgotten, at most
NAMED = 8

SIDES = ("reference", "candidate")

#: what counts steps, a number whatever the shape of the parameter
STEP = "step"

#: the pair of a schedule that was saved and loaded
RESUMED_SCHEDULE = "resumed schedule"


def judge(context: Context, result: StageResult, experiment: Experiment, *, across: bool) -> None:
    """Interrupt the updates of an experiment on each side.

    ``across``: also go on from the other side's state.

    Args:
        context: the check.
        result: of the stage ``optimizer``, which gets a pair each.
        experiment: the uninterrupted updates.
        across: whether both sides' updates agree, so that one may go on where the other was.
    """
    recorders = context.reference, context.candidate
    gradients = experiment.gradients, experiment.moved
    captures: list[Capture | None] = []
    for side, (recorder, given) in enumerate(zip(recorders, gradients, strict=True)):
        captures.append(_recorded(context, result, (recorder, side), "optimizer-resumed", {"gradients": given}, experiment))
    whole = experiment.reference, experiment.candidate
    forgets, pace = False, context.settings.pace.steps_between(SIDES.index("candidate"))
    by_class = any(p.unjudged is Unjudged.INHERENT and p.key == RESUMED_SCHEDULE for p in result.pairs)
    rated = by_class and 0 < pace < len(experiment.steps)  # else no rate changes here
    for name, capture, uninterrupted in zip(SIDES, captures, whole, strict=True):
        if capture is not None:
            pair = _pair(f"resumed updates of the {name}", uninterrupted, capture, experiment)
            result.pairs.append(pair)
            forgets = _judge_resumed(result, pair, capture, name, forgets=forgets, rated=rated)
    if across and forgets:
        result.notes.append("no update was made from the other side's state: what is saved does not hold all that an optimizer remembers")
    elif across and captures[0] is not None and captures[1] is not None:
        _across(context, result, experiment, (captures[0], captures[1]))


def _judge_resumed(result: StageResult, pair: Pair, capture: Capture, name: str, *, forgets: bool, rated: bool) -> bool:
    """Say what resumed updates tell; whether a side is known to forget, which excuses a port.

    ``rated``: the rates of the candidate's updates are others once it is loaded, and that is told.
    """
    if pair.verdict != DIVERGED:
        return forgets
    if Resuming.answer(capture).unsaved:
        pair.judged = False  # a port of a program that cannot resume need not
        result.warnings.append(f"the {name}'s optimizer has no state_dict(): a training of it cannot be resumed as it was")
        return True
    if Resuming.answer(capture).apart and Resuming.answer(capture).forgotten:
        pair.judged = False
        lost = ", ".join(Resuming.answer(capture).forgotten[:NAMED])
        result.warnings.append(
            f"the {name}'s optimizer keeps {lost} beside its state_dict(): a training of it cannot be resumed as it was "
            "(give its class a state_dict and what loads it)"
        )
        return True
    if name == "reference":
        pair.judged = False
        result.warnings.append("the reference itself does not go on as it was after its optimizer is saved and loaded")
        return True
    by_schedule = rated and not Resuming.answer(capture).forgotten
    if by_schedule and not forgets:
        pair.leave_out(Unjudged.INHERENT, "its rates are others after loading, as told of its schedule: not judged")
    if by_schedule or forgets:
        pair.judged = False  # a port of a program that cannot resume need not
        return True
    pair.notes.append("saved after two updates and loaded into a new optimizer, the candidate goes on otherwise")
    left_out = Resuming.answer(capture).forgotten
    if left_out:
        pair.notes.append(f"its state_dict() does not bring back {', '.join(left_out[:NAMED])}")
    return False


def _across(context: Context, result: StageResult, experiment: Experiment, captures: tuple[Capture, Capture]) -> None:
    """Each side goes on from the state that the other had."""
    unmapped = [Resuming.answer(c).unmapped for c in captures]
    if any(unmapped):
        result.notes.append(f"no update was made from the other side's state: {next(filter(None, unmapped))}")
        return
    plan, done = experiment.plan, 0
    for side, recorder in ((1, context.candidate), (0, context.reference)):
        state = state_of(captures[1 - side])
        given = saved(mapped(plan, state, to_candidate=side == 1), recorder.folder / "other-state")
        gradients = (experiment.gradients, experiment.moved)[side]
        capture = _recorded(context, result, (recorder, side), "optimizer-across", {"gradients": gradients, "state": given}, experiment)
        if capture is None:
            continue
        whole = (experiment.reference, experiment.candidate)[side]
        pair = _pair(f"updates of the {SIDES[side]} from the state of the {SIDES[1 - side]}", whole, capture, experiment)
        done += 1
        result.pairs.append(pair)
        if pair.verdict == DIVERGED and any(f.rule == "update/inherent" for f in result.findings):
            pair.leave_out(Unjudged.INHERENT, "what both remember differs by the inherent difference of their rules: not judged")
        elif pair.verdict == DIVERGED and _slots(captures[0]) != _slots(captures[1]):
            pair.leave_out(Unjudged.ELSEWHERE, "the optimizers keep what they remember under other names: not judged")
            result.notes.append(f"no state was carried across: {_kept(captures)}; each side's own saving and loading was judged")
            return
        elif pair.verdict == DIVERGED:
            pair.notes.append("the optimizers remember different things after equal updates, or the state does not map")
    result.coverage.append(Coverage("states carried across", done, 2))


def _slots(capture: Capture) -> set[str]:
    """Names of what an optimizer remembers of parameters, without the number of steps.

    Frameworks count those in other places.
    """
    return {slot for slots in state_of(capture).values() for slot in slots if slot != STEP}


def _kept(captures: tuple[Capture, Capture]) -> str:
    told = [f"the {side} remembers {', '.join(sorted(_slots(c))) or 'nothing'}" for side, c in zip(SIDES, captures, strict=True)]
    return " and ".join(told)


def _recorded(
    context: Context, result: StageResult, of: tuple[Recorder, int], name: str, values: dict[str, Capture], experiment: Experiment
) -> Capture | None:
    """One side's interrupted updates; None, and a warning, where they fail."""
    recorder, side = of
    pace = context.settings.pace.steps_between(side)
    try:
        capture = recorder.record(name, Resuming([experiment.run], experiment.given, experiment.steps, AT, pace), values)
    except WorkerFailed as failed:
        result.warnings.append(f"the {SIDES[side]}'s optimizer could not be saved and loaded: {failed.type}: {failed.message}")
        return None
    answer = Resuming.answer(capture)
    if experiment.run not in answer.runs:
        told = next(iter(answer.failed.values()), "")
        result.warnings.append(f"the {SIDES[side]}'s optimizer could not be saved and loaded: {told}")
        return None
    return capture


def _pair(key: str, whole: Capture, resumed: Capture, experiment: Experiment) -> Pair:
    """The parameter whose whole change is furthest from the uninterrupted one."""
    last = len(experiment.steps) - 1
    held = resumed.by_name(role="parameter", run=experiment.run, step=last)
    worst: tuple[float, Any, Any, Any] = (-1.0, None, None, 0)
    for record in whole.select(role="parameter", run=experiment.run, step=last):
        if record.name not in held:
            continue
        one, other = whole.array(record), resumed.array(held[record.name])
        size = float(np.linalg.norm(one))
        far = float(np.linalg.norm(one - other)) / size if size else float(np.linalg.norm(other))
        if not far <= worst[0]:
            worst = far, record, held[record.name], float(np.abs(one - other).max(initial=0.0))
    stats = None if worst[1] is None else Stats(count=int(np.prod(worst[1].shape)), rel_l2=worst[0], max_abs=worst[3])
    noise = Noise(SAME, "states that are stored in float32")
    return Pair(key, worst[1], worst[2], stats=stats, noise=noise, verdict=ALIGNED if 0.0 <= worst[0] <= SAME else DIVERGED)


def mapped(plan: Plan, state: State, *, to_candidate: bool) -> State:
    """What one side's optimizer remembers, under the other side's names and in its layout.

    Args:
        plan: how the weights were carried over.
        state: of the reference, or of the candidate.
        to_candidate: whether it is the reference's.
    """
    slots = list(dict.fromkeys(slot for kept in state.values() for slot in kept))
    wanted = plan.targets if to_candidate else plan.sources
    carry = plan.assemble if to_candidate else plan.restore
    found: State = {}
    for record in wanted:
        kept = {}
        for slot in slots:
            held = {name: values[slot] for name, values in state.items() if slot in values}
            sources = _sources(plan, record.name, to_candidate=to_candidate)
            present = [held[name] for name in sources if name in held]
            if present and present[0].ndim == 0:
                kept[slot] = present[0] if slot == STEP or math.prod(record.shape) != 1 else present[0].reshape(record.shape)
                continue
            value = carry(record.name, lambda name, held=held: _typed(held.get(name))) if present else None  # type: ignore[misc]
            if value is not None:
                kept[slot] = np.asarray(value.array, np.float64)
        if kept:
            found[record.name] = kept
    return found


def _typed(value: Any) -> Any:
    from paralign.dtypes import typed

    return None if value is None else typed(np.ascontiguousarray(value))


def _sources(plan: Plan, name: str, *, to_candidate: bool) -> list[str]:
    """The tensors of the other side that one of this side is made of."""
    if to_candidate:
        return [one.name for one, other in plan.twins if other.name == name]
    return [other.name for one, other in plan.twins if one.name == name]


def saved(state: State, folder: Any) -> Capture:
    """A state as a capture that a worker reads."""
    clear(folder)
    digest = hashlib.sha256()
    for name, kept in sorted(state.items()):
        for slot, value in sorted(kept.items()):
            digest.update(f"{name} {slot} {value.shape}".encode())
            digest.update(np.ascontiguousarray(value).tobytes())
    with CaptureWriter(folder, Manifest(stage="optimizer", settings={"key": digest.hexdigest()})) as writer:
        add_state(writer, state)
    return Capture.open(folder)
