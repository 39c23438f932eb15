"""Weights: every tensor of both sides accounted for, carried over by layer type, read back bit for bit."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import TYPE_CHECKING

from paralign import weights as mapping
from paralign.capture import Capture, CaptureWriter, discard
from paralign.comparison import compare_pair, judge
from paralign.model import DIVERGED, Divergence, Manifest, Pair, Point, StageResult
from paralign.stages import forward
from paralign.stages.context import spent
from paralign.stages.judging import Method, conclude

if TYPE_CHECKING:
    from collections.abc import Callable

    from paralign.dtypes import Typed
    from paralign.model import Record
    from paralign.stages.context import Context

#: how often both models may be run to tell assignments apart that the shapes allow
RUNS = 32

EXACT = Method("exact", "", "", (), 0.0)


def run(context: Context) -> StageResult:
    """Map the reference's state to the candidate's, load it (unless the weights are taken as they are), and compare what is there."""
    missing = context.lacking("weights", "build_model")
    if missing:
        return missing
    reference, candidate = context.record_both("weights", "weights")
    plan = mapping.plan(reference.records, candidate.records, context.framework("reference"), context.framework("candidate"))
    context.weights, context.plan = reference, plan
    context.reference.prepare("load", {"state": reference}, recorded_by="weights")
    result = spent(StageResult("weights"), reference, candidate)
    if context.settings.weights == "copy":
        plan = _proven(context, result, plan)
        candidate = load(context, plan)
    else:
        result.notes.append("the weights were taken as they are (as-is): nothing was copied")
    result.pairs = _pairs(plan, reference, candidate) + [_lost(move) for move in (*plan.missing, *plan.extra)]
    result.notes += _notes(plan, settled=any(note.startswith("proven: ") for note in result.notes))
    conclude(result, EXACT)
    if result.verdict == DIVERGED and result.worst is not None:
        worst = result.worst
        result.divergence = Divergence(_point(worst.reference), _point(worst.candidate), worst)
    return result


def _proven(context: Context, result: StageResult, plan: mapping.Plan) -> mapping.Plan:
    """The plan; where the shapes allow others, the one that proves right by running both models in float64."""
    if not plan.alternatives or not plan.complete or context.inputs is None:
        return plan
    proof = mapping.prove(plan, lambda tried: forward.distance(context, lambda: load(context, tried)), limit=RUNS)
    tried = f"assignments that the shapes allow, tried by running both models in float64: {proof.runs}"
    if not proof.proven:  # then the first is as good as any, and what diverges is looked for under it
        result.notes.append(f"{tried}; none makes the outputs equal: the model differs, or the weights do")
        return plan
    changed = f"; another than the first is right for {_some(proof.changed)}" if proof.changed else ""
    result.notes.append(f"proven: {tried}{changed}")
    result.notes += [f"ambiguous: the run cannot tell {line}" for line in proof.ambiguous]
    result.notes += [f"not tried, for want of runs: {line}" for line in proof.untested]
    context.plan = proof.plan
    return proof.plan


def load(context: Context, plan: mapping.Plan) -> Capture:
    """Load the reference's state into the candidate by a plan; the candidate's state as it then is."""
    return context.candidate.record("loaded", "load", values={"state": write(context, plan)}, prelude=True)


def write(context: Context, plan: mapping.Plan) -> Capture:
    """The candidate's state, made from the reference's by the plan, as a capture that the candidate can load."""
    folder, reference = context.candidate.folder / "given", context.weights
    if reference is None:
        raise ValueError("the reference's weights are recorded first")
    if folder.exists():
        discard(folder)
    held = {r.name: r for r in reference.records if r.location is not None}
    key = hashlib.sha256(repr([reference.manifest.settings.get("key"), plan.rows()]).encode()).hexdigest()
    with CaptureWriter(folder, Manifest(side="candidate", stage="weights", settings={"key": key})) as writer:
        for target in plan.targets:
            value = plan.assemble(target.name, lambda name: reference.value(held[name]) if name in held else None)
            if value is not None:
                writer.add(target.name, value, role=target.role)
    return Capture.open(folder)


def _values(capture: Capture) -> Callable[[str], Typed | None]:
    """Values by name; an alias has those of the tensor that it shares with."""
    by_name = {r.name: r for r in capture.records}

    def fetch(name: str) -> Typed | None:
        record = by_name.get(name)
        if record is not None and record.location is None:
            record = by_name.get(record.attrs.get("shared") or "")
        return capture.value(record) if record is not None and record.location is not None else None

    return fetch


def _pairs(plan: mapping.Plan, reference: Capture, candidate: Capture) -> list[Pair]:
    """Every tensor of the reference that has a place, beside the candidate's as it now is, brought back to the reference's layout."""
    there, here = _values(candidate), _values(reference)
    by_name = {r.name: r for r in candidate.records}
    pairs = []
    for source in plan.sources:
        moves = plan.moves_of(source.name)
        back = plan.restore(source.name, there)
        loaded = by_name[moves[0].candidate.name] if moves[0].candidate is not None else None
        shown = loaded if back is None or loaded is None else dataclasses.replace(loaded, shape=tuple(back.array.shape))
        pair = compare_pair(source.name, source, shown, here(source.name), back, how=moves[0].how)
        pair.candidate = loaded
        pair.transform = "; ".join(dict.fromkeys(m.transform for m in moves if m.transform)) or None
        pair.notes += list(dict.fromkeys(m.note for m in moves if m.note))
        judge(pair, limit=0.0, exact=True)
        pairs.append(pair)
    return pairs


def _lost(move: mapping.Move) -> Pair:
    record = move.reference if move.reference is not None else move.candidate
    pair = Pair(record.name if record is not None else "", move.reference, move.candidate, how="none", verdict=DIVERGED)
    pair.notes.append(move.note or f"missing in the {'candidate' if move.candidate is None else 'reference'}")
    return pair


def _notes(plan: mapping.Plan, *, settled: bool) -> list[str]:
    """What is to be said of a plan; what the shapes left open only where no run has settled it."""
    laid_out = sum(1 for r in plan.sources if any(m.transform for m in plan.moves_of(r.name)))
    ordered = sum(1 for m in plan.moves if m.how == "order")
    notes = [f"{len(plan.sources)} tensors mapped, {laid_out} of them in another layout, by layer type"]
    notes += [f"{len(plan.dropped)} without a twin by design, left out: {_some([_name(m) for m in plan.dropped])}"] if plan.dropped else []
    notes += [f"{ordered} paired by order, for want of equal names"] if ordered else []
    open_ = [] if settled else plan.ambiguous
    notes += [f"ambiguous: {_some(a.reference)} could as well have gone to others of {_some(a.candidate)}" for a in open_]
    return notes


def _name(move: mapping.Move) -> str:
    record = move.reference if move.reference is not None else move.candidate
    return record.name if record is not None else ""


def _some(names: list[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _point(record: Record | None) -> Point | None:
    return None if record is None else Point(record.name, record.op)
