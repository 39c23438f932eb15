"""Weights: every tensor of both sides accounted for, carried over by layer type, read back bit for bit."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from paralign import weights as mapping
from paralign.capture import Capture, CaptureWriter, discard
from paralign.comparison import compare_pair, judge
from paralign.model import DIVERGED, Divergence, Manifest, Pair, Point, StageResult
from paralign.stages.context import spent
from paralign.stages.judging import Method, conclude

if TYPE_CHECKING:
    from paralign.dtypes import Typed
    from paralign.model import Record
    from paralign.stages.context import Context

EXACT = Method("exact", "", "", (), 0.0)


def run(context: Context) -> StageResult:
    """Map the reference's state to the candidate's, load it (unless the weights are taken as they are), and compare what is there."""
    missing = context.lacking("weights", "build_model")
    if missing:
        return missing
    reference, candidate = context.record_both("weights", "weights")
    plan = mapping.plan(reference.records, candidate.records, context.framework("reference"), context.framework("candidate"))
    context.weights, context.plan = reference, plan
    copied = context.settings.weights == "copy"
    if copied:
        given = write(context, plan, reference)
        candidate = context.candidate.record("loaded", "load", values={"state": given}, prelude=True)
    context.reference.prepare("load", {"state": reference}, recorded_by="weights")
    result = spent(StageResult("weights"), reference, candidate)
    result.pairs = [_pair(move, reference, candidate) for move in plan.moves]
    result.pairs += [_lost(move) for move in (*plan.missing, *plan.extra)]
    result.notes += _notes(plan)
    if not copied:
        result.notes.append("the weights were taken as they are (as-is): nothing was copied")
    conclude(result, EXACT)
    if result.verdict == DIVERGED and result.worst is not None:
        worst = result.worst
        result.divergence = Divergence(_point(worst.reference), _point(worst.candidate), worst)
    return result


def write(context: Context, plan: mapping.Plan, reference: Capture) -> Capture:
    """The candidate's state, made from the reference's by the plan, as a capture that the candidate can load."""
    folder = context.candidate.folder / "given"
    if folder.exists():
        discard(folder)
    manifest = Manifest(side="candidate", stage="weights", settings={"key": reference.manifest.settings.get("key", "")})
    with CaptureWriter(folder, manifest) as writer:
        for holder, move in plan.transfers:
            if move.candidate is not None and holder.location is not None:
                writer.add(move.candidate.name, mapping.apply(move, reference.value(holder)), role=move.candidate.role)
    return Capture.open(folder)


def _source(capture: Capture, record: Record) -> Record:
    """The record that holds the values: the record itself, or the one that it is an alias of."""
    shared = record.attrs.get("shared")
    if record.location is None and shared:
        return next(r for r in capture.records if r.name == shared)
    return record


def _pair(move: mapping.Move, reference: Capture, candidate: Capture) -> Pair:
    """One move, with the candidate's tensor as it now is, brought back to the reference's layout."""
    first, second = move.reference, move.candidate
    if first is None or second is None:
        raise TypeError("a move has two ends")
    loaded = next(r for r in candidate.records if r.name == second.name)
    there: Typed = mapping.invert(move, candidate.value(_source(candidate, loaded)))
    shown = dataclasses.replace(loaded, shape=tuple(there.array.shape))
    pair = compare_pair(first.name, first, shown, reference.value(_source(reference, first)), there, how=move.how)
    pair.candidate = loaded
    pair.transform = move.transform
    pair.notes += [move.note] if move.note else []
    judge(pair, limit=0.0, exact=True)
    return pair


def _lost(move: mapping.Move) -> Pair:
    record = move.reference if move.reference is not None else move.candidate
    pair = Pair(record.name if record is not None else "", move.reference, move.candidate, how="none", verdict=DIVERGED)
    pair.notes.append(move.note or f"missing in the {'candidate' if move.candidate is None else 'reference'}")
    return pair


def _notes(plan: mapping.Plan) -> list[str]:
    laid_out = sum(1 for m in plan.moves if m.transform)
    ordered = sum(1 for m in plan.moves if m.how == "order")
    notes = [f"{len(plan.moves)} tensors mapped, {laid_out} of them transposed by layer type"]
    notes += [f"{len(plan.dropped)} without a twin by design, left out: {_some([_name(m) for m in plan.dropped])}"] if plan.dropped else []
    notes += [f"{ordered} paired by order, for want of equal names"] if ordered else []
    notes += [f"ambiguous: {_some(a.reference)} could as well have gone to others of {_some(a.candidate)}" for a in plan.ambiguous]
    return notes


def _name(move: mapping.Move) -> str:
    record = move.reference if move.reference is not None else move.candidate
    return record.name if record is not None else ""


def _some(names: list[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _point(record: Record | None) -> Point | None:
    return None if record is None else Point(record.name, record.op)
