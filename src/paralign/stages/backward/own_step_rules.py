"""Own steps that differ by what no port can avoid in the rules of optimizers.

The optimizers alone have shown both rules. Each side's own changes are held against what its rule makes of the gradients that reached it:
where they are that, the step does nothing else with them. Gradients after the first update may differ as far as other parameters make
them: how fast they change is seen on the reference's own way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from paralign.dtypes import widen
from paralign.locate.optimizer.identify import far
from paralign.locate.optimizer.update_rules import Trace, moved
from paralign.model import ALIGNED, DIVERGED, UNDERPOWERED, Unjudged

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from paralign.model import Pair, StageResult
    from paralign.stages.backward.own_step_records import Steps
    from paralign.stages.common.judging import Method

#: how far a change may be from what the rule makes of its gradients, relative: float64 leaves 1e-9 of a change of 1e-7 of a weight
MADE = 1e-5

#: how many times faster gradients may change towards the other side's parameters than along the reference's own way
FASTER = 10.0

#: a bound of this share of a gradient, or more, tells nothing: gradients that were not cleared differ by about the whole
WEAK = 0.5

#: what is said where nothing more can be
UNDECIDED = "the rules differ by what no port can avoid; whether this follows from it alone was not shown"

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
    later, bound = _later(steps, runs, recipes, names, last)
    if later == DIVERGED:
        return
    undecided = [pair for pair in wrong if later == UNDERPOWERED or (_is_no_change(pair) and (pair.error is None or pair.error > bound))]
    for pair in wrong:
        if any(pair is other for other in undecided):
            pair.verdict, pair.unjudged = UNDERPOWERED, Unjudged.INHERENT
            pair.notes.append(UNDECIDED)
        else:
            pair.leave_out(Unjudged.INHERENT, EXPLAINED)
    if undecided:
        part.warnings.append(f"{len(undecided)} values of train_step differ after the first update: {UNDECIDED}")
        return
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


def _later(
    steps: Steps, runs: tuple[str, str], recipes: tuple[Mapping[str, Any], Mapping[str, Any]], names: set[str], last: int
) -> tuple[str, float]:
    """What the steps after the first come to, and how far their gradients may be apart.

    Aligned where they follow from the first.
    """
    farthest = 0.0
    every = [_traces(steps, runs, step) for step in range(last + 1)]
    for step in range(1, last + 1):
        wrong = [_not_made(every[: step + 1], side, recipe, names) for side, recipe in enumerate(recipes)]
        if any(wrong):
            return (UNDERPOWERED if wrong[0] else DIVERGED), farthest  # a rule that is not the reference's own there says nothing
        bound = _bound(every, step, one_batch=steps.batches == 1)
        if bound is None or bound >= WEAK:
            return UNDERPOWERED, farthest
        if _apart(every[step]) > bound:
            return DIVERGED, bound
        farthest = max(farthest, bound)
    return ALIGNED, farthest


def _is_no_change(pair: Pair) -> bool:
    """Whether a pair is a value that a step returns, or a buffer."""
    return pair.reference is not None and pair.reference.role != "parameter"


def _not_made(every: list[tuple[dict[str, Trace], dict[str, Trace]]], side: int, recipe: Mapping[str, Any], names: set[str]) -> bool:
    """Whether a side's last change is not what its rule makes of its own gradients."""
    word = ("reference", "candidate")[side]
    held = [each[side] for each in every]
    known = [name for name in held[0] if name in recipe and all(name in each for each in held)]
    if not names <= set(known):
        return True
    joined = {}
    for name in known:
        parts = [each[name] for each in held]
        gradients, norms = [part.gradients[0] for part in parts], [part.norms[0] for part in parts]
        joined[name] = Trace(name, parts[0].weight, gradients, norms, {}, parts[0].dims)
    made = moved({name: recipe[name] for name in known}, joined)
    before, after = held[-2], held[-1]
    return any(far(made[name][-1], after[name].steps[word][0] - before[name].steps[word][0]) > MADE for name in names)


def _bound(every: list[tuple[dict[str, Trace], dict[str, Trace]]], step: int, *, one_batch: bool) -> float | None:
    """How far the gradients of a step may be apart, relative; None where that is not known."""
    names = [name for name in every[step][0] if all(name in own for each in every for own in each)]
    sides = zip(every[step - 1], ("reference", "candidate"), strict=True)
    ways = [_joined([each[name].steps[side][0] for name in names]) for each, side in sides]
    first, now = (_joined([each[0][name].gradients[0] for name in names]) for each in (every[0], every[step]))
    way, size = float(np.linalg.norm(ways[0])), float(np.linalg.norm(now))
    if not way or not size:
        return None
    away = float(np.linalg.norm(ways[1] - ways[0])) / way
    changed = float(np.linalg.norm(now - first)) / size if one_batch else 1.0
    return MADE + FASTER * away * changed


def _apart(traces: tuple[dict[str, Trace], dict[str, Trace]]) -> float:
    """How far both sides' gradients of a step are apart, relative."""
    names = [name for name in traces[0] if name in traces[1]]
    one, other = (_joined([own[name].gradients[0] for name in names]) for own in traces)
    return far(other, one)


def _joined(arrays: list[Any]) -> Any:
    """Arrays end to end."""
    return np.concatenate([np.zeros(0), *(np.zeros(0) if each is None else np.ravel(each) for each in arrays)])


def _gets_alike(one: Trace, other: Trace) -> bool:
    """Whether a parameter's first gradient is the same on both sides."""
    first, second = one.gradients[0], other.gradients[0]
    if first is None or second is None:
        return first is second
    return not np.any(first) or far(first, second) <= MADE


def _traces(steps: Steps, runs: tuple[str, str], step: int = 0) -> tuple[dict[str, Trace], dict[str, Trace]]:
    """What reached an update, and the changes up to it, on both sides.

    Of the parameters of which all is known.
    """
    found: tuple[dict[str, Trace], dict[str, Trace]] = {}, {}
    weights = steps.context.weights
    held = {} if weights is None else {record.name: record for record in weights.records if record.location is not None}
    changes = {first.name: (one, other) for first, _, one, other in steps.values("parameter", runs, step)}
    for first, _, *gradients in steps.values("gradient", runs, step):
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
