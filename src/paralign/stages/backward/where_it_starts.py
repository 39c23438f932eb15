"""Where differing steps begin to: the operation, the draw, or the first wrong pair."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.errors import WorkerFailed
from paralign.locate import pipeline
from paralign.locate.optimizer import watched_steps
from paralign.locate.optimizer.setting_lines import code_at
from paralign.locate.provenance.programs import given_argument
from paralign.locate.source.call_arguments import argument_line, bound_line
from paralign.model import ALIGNED, DIVERGED, UNDERPOWERED, Divergence, Finding, Pair, Point, StageResult
from paralign.stages.backward import drawn_steps
from paralign.stages.common import added_up
from paralign.stages.common.judging import FLOAT64
from paralign.stages.common.places import Kind, PairKey, key_of
from paralign.stages.steps import running
from paralign.worker.protocol import built_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paralign.capture import Capture
    from paralign.context import Context

#: the rule of a finding that both sides' running statistics keep another share of what they were
MOMENTUM = "running/momentum"


def watch_operations(context: Context, result: StageResult, methods: dict[str, str]) -> bool:
    """Watch single operations in the modes whose first step diverged.

    Where none did, in the first later step that does.

    Returns:
        Whether all modes that differ were judged and searched in float64, and no operation was found guilty.
    """
    if result.verdict != DIVERGED:
        return False
    slight = added_up.may_be(result, context.settings.tolerance_of("backward"))
    differing = dict.fromkeys(place.mode for place in places_of(result.wrong))
    modes = [mode for mode in context.modes if methods.get(mode) != drawn_steps.DRAWN.name]
    clean = all(methods.get(mode) == FLOAT64.name for mode in differing)
    for mode in modes:
        diverged = result.wrong
        wrong = [p for p in diverged if any(place.mode == mode for place in places_of([p]))]
        after = _steps_before(result, wrong)
        if after is None:
            continue
        try:
            searched = pipeline.backward(context, mode, after, slight=slight)
        except WorkerFailed as failure:
            result.notes.append(f"operations could not be watched: the {failure.side} failed with {failure.type}: {failure.message}")
            return False
        found = searched.divergences
        clean = clean and searched.clean
        result.notes += searched.notes
        result.divergences += found
        if not found:
            continue
        result.divergence = result.divergences[0] if clean else found[0]
        if after:
            result.notes.append(f"the first step agrees; where it starts was looked for in step {after}, after the updates before it")
        if not clean:
            return False
    return clean


def _steps_before(result: StageResult, wrong: list[Pair]) -> int | None:
    """The steps before the first that has another loss or other gradients.

    None where none has, or the update that led there is at fault.

    Weights that start at zero (a residual branch's last factor, a row for padding) hide what is wrong behind them in the first step.
    """
    places = places_of(wrong)
    if any(place.is_before_updates for place in places):
        return 0
    if result.divergence is not None or result.divergences or result.findings:
        return None
    later = [place.step for place in places if place.kind in (Kind.LOSS, Kind.GRADIENT)]
    return min(later, default=None)


def replay_random(context: Context, result: StageResult) -> None:
    """Run train mode once with everything random in it replayed.

    What differs then, or is random on one side only, diverges.
    """
    if "train" not in context.modes:
        return
    try:
        found, findings, notes = pipeline.random(context)
    except WorkerFailed as failure:
        result.notes.append(f"what is random was not replayed: the {failure.side} failed with {failure.type}: {failure.message}")
        return
    result.notes += [*notes, *context.untested]
    result.findings += findings
    confirmed = any(d.confirmed for d in found)
    for finding in findings:
        finding.proven = confirmed
    if findings or confirmed:
        known = {d.candidate.source for d in result.divergences if d.candidate is not None}
        result.divergences += [d for d in found if d.candidate is None or d.candidate.source not in known]
        result.verdict = DIVERGED
        result.divergence = result.divergence or next(iter(result.divergences), None)
    elif result.verdict == ALIGNED and pipeline.differs_undecided(context, "train"):
        result.verdict = UNDERPOWERED
        result.warnings.append(
            "with everything random in it replayed, a pass in train mode differs, and no operation is shown to be at fault: "
            "the port is wrong, or it uses the same draws in another way; neither was proven"
        )


def first_divergence(context: Context, result: StageResult) -> Divergence | None:
    """Where it starts, with the lines that constructed the layers that the pair belongs to."""
    found = first_wrong(result)
    captures = context.artifacts.get("weights")
    if found is None or captures is None or found.pair is None:
        return found
    pair = found.pair
    ends = pair.reference, pair.candidate
    if any(record is not None and record.role != "scalar" for record in ends):  # a loss or a rate belongs to no layer
        for point, capture in zip((found.reference, found.candidate), captures, strict=True):
            _name_construction(point, capture)
    if found.candidate is not None:
        shares = [running.kept(record, context.framework(side)) for record, side in zip(ends, ("reference", "candidate"), strict=True)]
        if None not in shares and shares[0] != shares[1]:
            result.findings.append(_momentum(context, found, found.candidate, shares))
    return found


def _name_construction(point: Point | None, capture: Capture) -> None:
    """Give a point without a line the one that constructed its layer."""
    if point is None or point.source is not None:
        return
    built = built_of(capture).get(point.name.rpartition(".")[0])
    if built:
        point.source, point.lines = built[0], built[1:]
        point.code = code_at(built[0])


def _momentum(context: Context, found: Divergence, point: Point, shares: Sequence[float | None]) -> Finding:
    """Point at the line that sets a wrong momentum, and say what it means."""
    lines = [line for line in (point.source, *point.lines) if line is not None]
    line = argument_line(lines, {"momentum"}) or bound_line(lines, {"momentum"})
    if line is not None:
        watched_steps.move(point, line)
    said = (
        f"a step keeps {shares[1]:.6g} of the old statistics here, {shares[0]:.6g} in the reference: "
        "PyTorch's momentum weighs the new ones, Paddle's the old ones"
    )
    found.notes.append(said)
    given_argument.follow(context, found, point.name.rpartition(".")[0], "momentum", "the momentum comes from here")
    due = shares[0] or 0.0
    fix = f"write momentum={due:.6g} where it weighs the old statistics (Paddle), {1 - due:.6g} where it weighs the new ones (PyTorch)"
    return Finding(MOMENTUM, said, fix)


def first_wrong(result: StageResult) -> Divergence | None:
    """Where it starts: the first wrong pair.

    Among the gradients of one step, the one nearest to the loss.
    """
    wrong = result.wrong
    if not wrong:
        return None
    pair = wrong[0]
    place = key_of(pair)
    if place is not None and place.kind is Kind.GRADIENT:
        for other in wrong:  # gradients stand in the order of layers: the last one is nearest to the loss
            key = key_of(other)
            if key is not None and key.place == place.place:
                pair = other
    before = result.pairs[: result.pairs.index(pair)]
    agreed = [p.key for p in before if p.verdict == ALIGNED]
    ends = [Point(r.name, r.op, r.source) if r is not None else None for r in (pair.reference, pair.candidate)]
    return Divergence(ends[0], ends[1], pair, last_agreeing=agreed[-1] if agreed else None)


def places_of(pairs: list[Pair]) -> list[PairKey]:
    """The points of training that pairs are of."""
    return [place for place in map(key_of, pairs) if place is not None]
