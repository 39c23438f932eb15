"""What equal gradients did to each parameter on both sides, measured and judged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.comparison import compare_pair
from paralign.comparison import judge as judge_pair
from paralign.comparison.judge import LOUD
from paralign.dtypes import EPS
from paralign.locate.optimizer import read_config
from paralign.locate.optimizer.update_rules import Trace
from paralign.model import DIVERGED, Noise, Pair, Unjudged
from paralign.stages.common.judging import CONSTANTS
from paralign.stages.steps import resolution
from paralign.worker.sides.session import DOUBLE

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import TypeGuard

    from paralign.dtypes import Typed
    from paralign.model import Record
    from paralign.stages.steps.equal_gradients import Experiment

#: a step counts as reproduced up to this ratio of error to noise
RATIO = 2.0

#: elements of all parameters together that hypotheses are tried on, and of one parameter
SAMPLED, EACH = 50_000, 2048

#: elements of a parameter that are looked at however many parameters there are
LITTLE = 32


@dataclass
class Moves:
    """What both sides' steps did to their parameters.

    ``pairs`` are the whole changes, judged. ``traces`` are samples of those that can be seen, for hypotheses; ``limits`` are the
    relative errors up to which a hypothesis counts as their steps.
    """

    pairs: list[Pair] = field(default_factory=list)
    traces: dict[str, Trace] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)

    @property
    def wrong(self) -> list[Pair]:
        """The changes that differ."""
        return [pair for pair in self.pairs if pair.verdict == DIVERGED]


def moves_of(experiment: Experiment) -> Moves:
    """What happened to each shared parameter: a sample, and the whole measured and judged."""
    count = len(experiment.steps)
    ours, theirs = (
        [capture.by_name(role="parameter", run=experiment.run, step=number) for number in range(count)]
        for capture in (experiment.reference, experiment.candidate)
    )
    given = [experiment.gradients.by_name(role="gradient", run=experiment.given, step=number) for number in range(count)]
    held = {r.name: r for r in experiment.weights.records if r.location is not None}
    names = _names_in(experiment, held, ours[0])
    most = max(LITTLE, min(EACH, SAMPLED // max(1, len(names))))
    moves = Moves()
    for name in names:
        gradients = [given[step].get(name) for step, _ in experiment.steps]
        changes = [[_whole(experiment, side, records, name) for records in steps] for side, steps in enumerate((ours, theirs))]
        has_gradient = any(map(_has_values, gradients))
        if None in changes[1] or not has_gradient:
            continue
        weight = experiment.weights.array(held[name]).astype(np.float64)
        dtype = held[name].dtype
        trace = _trace(name, weight, gradients, changes, experiment, most)
        pair = _pair(name, ours[-1][name], theirs[-1], changes, experiment, weight, dtype)
        stored = resolution.of_steps(trace, DOUBLE if experiment.run == DOUBLE else dtype)
        limit = RATIO * max(pair.noise_value, stored)
        moves.pairs.append(pair)
        if limit <= RATIO * LOUD or pair.verdict == DIVERGED:
            moves.traces[name], moves.limits[name] = trace, limit
        else:
            pair.leave_out(Unjudged.ROUNDING, "moves by less than can be seen beside the stored parameter: not judged")
    return moves


def _names_in(experiment: Experiment, held: Collection[str], recorded: Collection[str]) -> list[str]:
    """The parameters whose weights and steps are known, second names left out."""
    names = []
    for source in experiment.plan.sources:
        if source.attrs.get("shared"):
            continue
        if source.name in recorded and source.name in held:
            names.append(source.name)
    return names


def _has_values(record: Record | None) -> TypeGuard[Record]:
    """Whether there is a record, with its values."""
    return record is not None and record.location is not None


def _whole(experiment: Experiment, side: int, records: dict[str, Record], name: str) -> Typed | None:
    """What the steps so far changed of a parameter, in the reference's layout."""
    capture = (experiment.reference, experiment.candidate)[side]
    if side == 0:
        return capture.value(records[name])
    return experiment.plan.restore(name, lambda other: capture.value(records[other]) if other in records else None)


def _trace(
    name: str, weight: Any, gradients: list[Record | None], changes: list[list[Typed | None]], experiment: Experiment, most: int
) -> Trace:
    size = weight.size
    places = np.arange(size) if size <= most else np.sort(np.random.default_rng(0).choice(size, most, replace=False))
    sampled: list[Any] = []
    norms = []
    for record, (_, factor) in zip(gradients, experiment.steps, strict=True):
        if not _has_values(record):
            sampled.append(None)
            norms.append(0.0)
            continue
        value = experiment.gradients.array(record).astype(np.float64) * factor
        sampled.append(value.ravel()[places])
        norms.append(float(np.linalg.norm(value)))
    steps = {}
    for side, found in zip(("reference", "candidate"), changes, strict=True):
        whole = np.stack([np.zeros(len(places)), *(c.array.ravel()[places] for c in found if c is not None)])
        steps[side] = np.diff(whole, axis=0)
    return Trace(name, weight.ravel()[places], sampled, norms, steps, weight.ndim, size <= most)


def _pair(
    name: str, first: Record, second: dict[str, Record], changes: list[list[Typed | None]], experiment: Experiment, weight: Any, dtype: str
) -> Pair:
    """One parameter's whole change on both sides, judged beside what storing it costs."""
    move = experiment.plan.moves_of(name)[0]
    pair = compare_pair(f"moved {name}", first, first, changes[0][-1], changes[1][-1], how=move.how)
    pair.candidate = second.get(move.candidate.name) if move.candidate is not None else None
    pair.transform = move.transform
    noise, how = CONSTANTS, "constants that frameworks store in float32"
    held = DOUBLE if experiment.run == DOUBLE else dtype
    change = 0.0 if pair.stats is None else pair.stats.rms_reference
    stored = 2 * EPS[held] + resolution.stored(held, resolution.rms(weight), change, len(experiment.steps)) if change else 0.0
    if stored > noise:
        noise, how = stored, f"storing the parameter in {held}"
    near_one = max(map(read_config.stored_near_one, experiment.abouts))
    if near_one > noise:
        noise, how = near_one, "what float32 leaves of one less a beta, in a kernel whose rule is not known"
    pair.noise = Noise(noise, how)
    judge_pair(pair, limit=RATIO)
    return pair
