"""Both optimizers given gradients that one of them would have clipped, clipped before.

Where they move alike then, clipping is all that differs, whatever their rules are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.capture import Capture, CaptureWriter, clear
from paralign.errors import WorkerFailed
from paralign.locate.optimizer import read_config
from paralign.locate.optimizer.identify import Difference
from paralign.model import Manifest, StageResult
from paralign.stages.steps.clipped_gradients import clipped, company
from paralign.stages.steps.equal_gradients import Experiment, Given, record_steps
from paralign.stages.steps.traced_moves import Moves, moves_of
from paralign.worker.protocol import Ran
from paralign.worker.protocol.wire import encode
from paralign.worker.sides.session import DOUBLE

if TYPE_CHECKING:
    from collections.abc import Hashable

    from paralign.context import Context
    from paralign.locate.optimizer.identify import Known

#: gradients are clipped to this share of the threshold: the optimizer's own rounding of the norm then clips nothing more
SHARE = 1.0 - 1e-6

#: the terms of a rule that say what is clipped
TERMS = ("clip", "threshold", "slack", "late")


@dataclass(frozen=True)
class _Told:
    """The clipping that one optimizer carries.

    ``together``: for each parameter that it clips, what is clipped together with it.
    """

    side: int
    kind: str
    threshold: float
    together: dict[str, Hashable]


def difference(context: Context, experiment: Experiment, given: Given, moves: Moves, known: tuple[Known, Known]) -> Difference | None:
    """The clipping that one optimizer alone carries, where it is all that differs.

    It is asked where the rule of a side is unknown, so that nothing can be recomputed. The gradients are clipped here and given to both.

    Args:
        context: the check.
        experiment: the steps from the gradients as they are.
        given: these gradients.
        moves: what the steps did; some parameters moved otherwise.
        known: the rules of both sides.

    Returns:
        None where no optimizer carries a clipping, both do, no gradient reaches it, or the steps differ all the same.
    """
    if not any(side.left or not side.recipe for side in known):
        return None
    carried = _carried(experiment)
    cut = None if carried is None else _clipped(context, experiment, given, carried)
    if carried is None or cut is None:
        return None
    try:
        again = record_steps(context, cut, StageResult("optimizer"))
    except WorkerFailed:
        return None
    after = None if again is None else moves_of(again)
    if after is None or after.wrong or len(after.pairs) < len(moves.pairs):
        return None
    values: list[tuple[Any, ...]] = [("", 0.0, 0.0, False), ("", 0.0, 0.0, False)]
    values[carried.side] = (carried.kind, carried.threshold, 0.0, False)
    wrong = [pair.reference.name for pair in moves.wrong if pair.reference is not None]
    before, left = (max((pair.error or 0.0 for pair in each), default=0.0) for each in (moves.wrong, after.pairs))
    return Difference(TERMS, values[0], values[1], wrong, before, left)


def _carried(experiment: Experiment) -> _Told | None:
    """What one side's optimizer alone says that it clips, in one way for all that it clips."""
    told = []
    for side, about in enumerate(experiment.abouts):
        named = {**about, "parameters": about["mapped"]}
        found = {name: read_config.clipping(named, name) for name in named["parameters"]}
        found = {name: each for name, each in found.items() if each}
        if not found:
            continue
        kinds = {(each["clip"], each["threshold"]) for each in found.values()}
        if len(kinds) > 1:
            return None
        (kind, threshold), owns = kinds.pop(), named["parameters"]
        told.append(_Told(side, kind, threshold, {name: company(kind, name, owns[name]["group"]) for name in found}))
    return told[0] if len(told) == 1 else None


def _clipped(context: Context, experiment: Experiment, given: Given, carried: _Told) -> Given | None:
    """The gradients of every step, clipped; None where none is large enough."""
    folder = context.reference.folder / "clipped-gradients"
    clear(folder)
    key = f"{given.gradients.manifest.settings.get('key')} {experiment.given} {given.steps} {carried}"
    settings = {"key": key, "answer": encode(Ran([f"{DOUBLE}:eval"]))}
    changed = False
    with CaptureWriter(folder, Manifest(side="reference", stage="optimizer", settings=settings)) as writer:
        for number, (step, factor) in enumerate(given.steps):
            records = given.gradients.by_name(role="gradient", run=experiment.given, step=step)
            values = {n: given.gradients.array(r).astype(np.float64) * factor for n, r in records.items() if r.location is not None}
            cut = clipped(values, carried.kind, carried.threshold * SHARE, carried.together)
            changed |= any((cut[name] != value).any() for name, value in values.items())
            for name, value in cut.items():
                writer.add(name, value, role="gradient", run=f"{DOUBLE}:eval", step=number)
    steps = [(number, 1.0) for number in range(len(given.steps))]
    return replace(given, gradients=Capture.open(folder), steps=steps, name=f"{given.name}-clipped", mode="eval") if changed else None
