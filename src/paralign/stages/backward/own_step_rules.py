"""Own steps that differ by what no port can avoid in the rules of optimizers.

The optimizers alone have shown both rules. Each side's own changes are held against what its rule makes of the gradients that reached it:
where they are that, the step does nothing else with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from paralign.dtypes import widen
from paralign.locate.optimizer.identify import far
from paralign.locate.optimizer.update_rules import Trace, moved
from paralign.model import DIVERGED, Unjudged

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from paralign.model import Pair, StageResult
    from paralign.stages.backward.own_step_records import Steps
    from paralign.stages.common.judging import Method

#: how far a change may be from what the rule makes of its gradients, relative: float64 leaves 1e-9 of a change of 1e-7 of a weight
MADE = 1e-5

#: what is said of each pair
EXPLAINED = "each side's rule makes this of its gradients, and the rules differ by what no port can avoid: not judged"


def excuse(part: StageResult, steps: Steps, method: Method) -> None:
    """Leave out what follows from the rules, where these differ by inherent terms alone.

    Values that the first step returns are no part of that, and stay judged. Gradients of the first update have to agree before.
    """
    recipes, last = steps.context.inherent, steps.context.settings.steps - 1
    wrong = [pair for pair in part.pairs if pair.verdict == DIVERGED and pair.judged]
    if recipes is None or not wrong or not all(_follows(pair) for pair in wrong):
        return
    runs = method.reference_run, method.candidate_run
    names = {pair.reference.name for pair in wrong if pair.reference is not None and pair.reference.role == "parameter"}
    if not names or not _are_made(steps, runs, recipes, names):
        return
    for pair in wrong:
        pair.leave_out(Unjudged.INHERENT, EXPLAINED)
    part.notes.append(
        f"{len(wrong)} values of train_step differ by an inherent difference of the optimizers, and were not judged: from the gradients "
        f"that reach the first update, which agree, each side's own rule makes its changes. What differs after it, up to step {last}, "
        "may follow from that"
    )


def has_excused(part: StageResult) -> bool:
    """Whether changes were left out for the rules' sake.

    As they are, without float64, they differ alike.
    """
    left_out = [pair.reference for pair in part.pairs if pair.unjudged is Unjudged.INHERENT]
    return any(record is not None and record.role == "parameter" for record in left_out)


def _follows(pair: Pair) -> bool:
    """Whether a pair is a change, or comes after the first update."""
    record = pair.reference
    return record is not None and (record.role == "parameter" or bool(record.step))


def _are_made(steps: Steps, runs: tuple[str, str], recipes: tuple[Mapping[str, Any], Mapping[str, Any]], names: set[str]) -> bool:
    """Whether both first changes are what the rules make of equal gradients.

    For all parameters that differ.
    """
    traces = _traces(steps, runs)
    if not all(names <= own.keys() for own in (*traces, *recipes)):
        return False
    if not all(_gets_alike(trace, traces[1][name]) for name, trace in traces[0].items() if name in traces[1]):
        return False
    for side, recipe, own in zip(("reference", "candidate"), recipes, traces, strict=True):
        known = {name: trace for name, trace in own.items() if name in recipe}
        made = moved({name: recipe[name] for name in known}, known)
        if any(far(made[name], own[name].steps[side]) > MADE for name in names):
            return False
    return True


def _gets_alike(one: Trace, other: Trace) -> bool:
    """Whether a parameter's first gradient is the same on both sides."""
    first, second = one.gradients[0], other.gradients[0]
    if first is None or second is None:
        return first is second
    return not np.any(first) or far(first, second) <= MADE


def _traces(steps: Steps, runs: tuple[str, str]) -> tuple[dict[str, Trace], dict[str, Trace]]:
    """What reached the first update and came of it, on both sides.

    Of the parameters of which all is known.
    """
    found: tuple[dict[str, Trace], dict[str, Trace]] = {}, {}
    weights = steps.context.weights
    held = {} if weights is None else {record.name: record for record in weights.records if record.location is not None}
    changes = {first.name: (one, other) for first, _, one, other in steps.values("parameter", runs, 0)}
    for first, _, *gradients in steps.values("gradient", runs, 0):
        moves = changes.get(first.name)
        if weights is None or moves is None or first.name not in held or gradients[1] is None or moves[1] is None:
            continue
        weight = widen(weights.value(held[first.name])).astype(np.float64)
        for side, gradient, move, own in zip(("reference", "candidate"), gradients, moves, found, strict=True):
            if gradient is not None and move is not None:
                array, change = (widen(each).astype(np.float64).ravel() for each in (gradient, move))
                norm = float(np.linalg.norm(array))
                own[first.name] = Trace(first.name, weight.ravel(), [array], [norm], {side: change[None]}, weight.ndim)
    return found
