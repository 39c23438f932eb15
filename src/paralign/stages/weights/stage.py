"""Every tensor of both sides, carried over by layer type, read back bit for bit."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from typing import TYPE_CHECKING

from paralign.comparison import compare_pair, judge
from paralign.context import spent
from paralign.locate.optimizer.setting_lines import code_at
from paralign.locate.provenance import tracing_back
from paralign.model import ALIGNED, DIVERGED, NOT_TESTED, UNDERPOWERED, Divergence, Pair, Point, StageResult, Unjudged
from paralign.stages.common.judging import Method, conclude
from paralign.stages.weights import constructed, lone_tensors
from paralign.stages.weights.assignment import load, planned, proven
from paralign.weights import is_computed
from paralign.weights.placed_by_module import undecided
from paralign.worker.protocol import Load, Weights, built_of, history_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.dtypes import Typed
    from paralign.model import Record
    from paralign.weights import Move, Plan, Proof

#: said where the places of tensors are no more than likely
GUESSED = (
    "names do not tell which tensor is which, and no assignment that was tried makes the outputs equal: places are guessed by "
    "order and use (set `rules` under [weights] to say them)"
)

#: said of a tensor without a counterpart while the other side has some left over that may be it
UNPLACED = "names do not tell which of those left over on the other side is its counterpart"

EXACT = Method("exact", "", "", (), 0.0)


def run(context: Context) -> StageResult:
    """Map the reference's state to the candidate's, load it, and compare what is there.

    It is not loaded where the weights are taken as they are.
    """
    missing = context.lacking("weights", "build_model")
    if missing:
        return missing
    sealed = [side for side in ("reference", "candidate") if context.about[side].sealed]
    if sealed:
        return _sealed(context, sealed)
    reference, candidate = context.record_both("weights", Weights())
    plan = planned(context, reference, candidate)
    context.weights, context.plan, proof = reference, plan, None
    context.reference.prepare(Load(), {"state": reference}, recorded_by="weights")
    result = spent(StageResult("weights"), reference, candidate)
    states = reference, candidate
    if context.settings.weights == "copy":
        plan, proof = proven(context, result, plan, candidate)
        context.plan = plan
        candidate = load(context, plan)
    else:
        result.notes.append("the weights were taken as they are (as-is): nothing was copied")
    context.guessed = proof is not None and not proof.right and bool(plan.ambiguous)
    lost = [_lost(move, plan, guessed=context.guessed) for move in (*plan.missing, *plan.extra)]
    context.unplaced = sum(1 for pair in lost if UNPLACED in pair.notes)
    result.pairs = _pairs(plan, reference, candidate) + lost
    if context.guessed:
        result.doubt(GUESSED)
    result.notes += _notes(plan, settled=proof is not None and proof.right)
    _say_unproven(result, plan, proof)
    if proof is not None and proof.right:
        _leave_out_tables(result)
    built = constructed.compare(context, result, plan, states) if context.settings.weights == "copy" else []
    result.pairs += built
    conclude(result, EXACT)
    if result.verdict == DIVERGED and not context.guessed:
        result.findings += lone_tensors.findings(plan, context.framework("candidate"))
    if result.verdict == DIVERGED and result.worst is not None:
        worst = result.worst
        result.divergence = Divergence(_point(worst.reference, states[0]), _point(worst.candidate, states[1]), worst)
        if worst in built:
            _trace_back(context, result.divergence)
    return result


def _trace_back(context: Context, divergence: Divergence) -> None:
    """Name the line that made a constructor's constant wrong.

    It takes the place of the one that registered it.
    """
    pair = divergence.pair
    sides = tracing_back.recorded(context, "model")
    if sides is not None and pair is not None and pair.candidate is not None and pair.reference is not None:
        found = tracing_back.of_value(sides, f"buffer:{pair.candidate.name}", f"buffer:{pair.reference.name}")
        tracing_back.name(divergence, found)


def _sealed(context: Context, sealed: list[str]) -> StageResult:
    """The result where a program holds its weights: nothing is carried over.

    What they come to is the business of ``forward``.
    """
    if "reference" not in sealed:
        context.reference.prepare(Load(), {"state": context.reference.record("weights", Weights())}, recorded_by="weights")
    notes = [
        f"the {side} is a program of {context.framework(side)}, which holds its weights: they were taken as they are (the other side "
        "has to load the same), and no tensor was compared"
        for side in sealed
    ]
    return StageResult("weights", NOT_TESTED, notes=notes)


def _values(capture: Capture) -> Callable[[str], Typed | None]:
    """Values by name; an alias has those of the tensor that it shares with."""
    by_name = capture.by_name()

    def fetch(name: str) -> Typed | None:
        record = by_name.get(name)
        if record is not None and record.location is None:
            record = by_name.get(record.attrs.get("shared") or "")
        if record is not None and record.location is not None:
            return capture.value(record)
        return None

    return fetch


def _pairs(plan: Plan, reference: Capture, candidate: Capture) -> list[Pair]:
    """Every mapped tensor of the reference beside the candidate's, in its layout."""
    there, here = _values(candidate), _values(reference)
    by_name = candidate.by_name()
    pairs = []
    for source in plan.sources:
        moves = plan.moves_of(source.name)
        back = plan.restore(source.name, there)
        loaded = by_name[moves[0].candidate.name] if moves[0].candidate is not None else None
        shown = loaded
        if back is not None and loaded is not None:
            shown = dataclasses.replace(loaded, shape=tuple(back.array.shape))
        pair = compare_pair(source.name, source, shown, here(source.name), back, how=moves[0].how)
        pair.candidate = loaded
        pair.transform = "; ".join(dict.fromkeys(m.transform for m in moves if m.transform)) or None
        pair.notes += list(dict.fromkeys(m.note for m in moves if m.note))
        judge(pair, limit=0.0, exact=True)
        pairs.append(pair)
    return pairs


def _lost(move: Move, plan: Plan, *, guessed: bool) -> Pair:
    """A tensor without a counterpart.

    Of a table that a model may compute, nothing shows that it is missing while the others are guessed, or where the other side computes
    one of its size. Nor of a tensor that one left over on the other side may hold.
    """
    record, lacking, rivals = move.reference, "candidate", plan.extra
    if record is None:
        record, lacking, rivals = move.candidate, "reference", plan.missing
    pair = Pair(record.name if record is not None else "", move.reference, move.candidate, how="none", verdict=DIVERGED)
    pair.notes.append(move.note or f"missing in the {lacking}")
    if is_computed(move):
        tables = [m for m in plan.dropped if (m.reference is None) == (lacking == "candidate")]
        if guessed or _of_its_size(record, tables):
            pair.verdict = UNDERPOWERED
    elif guessed and _of_its_size(record, rivals):
        pair.verdict = UNDERPOWERED
        pair.notes.append(UNPLACED)
    return pair


def _of_its_size(record: Record | None, moves: Sequence[Move]) -> bool:
    """Whether one of these tensors has as many elements as a record."""
    others = [m.reference if m.reference is not None else m.candidate for m in moves]
    return record is not None and any(o is not None and math.prod(o.shape) == math.prod(record.shape) for o in others)


def _leave_out_tables(result: StageResult) -> None:
    """Do not judge buffers that one side lacks where outputs are equal.

    The other computes the table where it needs it.
    """
    for pair in result.pairs:
        record = pair.record
        if pair.how == "none" and record is not None and record.role == "buffer":
            pair.leave_out(Unjudged.UNNEEDED, "no counterpart, and the outputs are equal without: the other side computes it")


def _notes(plan: Plan, *, settled: bool) -> list[str]:
    """What is to be said of a plan.

    What the shapes left open only where no run has settled it.
    """
    laid_out = sum(1 for r in plan.sources if any(m.transform for m in plan.moves_of(r.name)))
    notes = [f"{len(plan.sources)} tensors mapped, {laid_out} of them in another layout, by layer type"]
    if plan.dropped:
        notes.append(f"{len(plan.dropped)} without a counterpart by design, left out: {_some([_name(m) for m in plan.dropped])}")
    ways = Counter(move.how for move in plan.moves)
    for how, order in (("order", "order"), ("calls", "order of execution")):
        if ways[how]:
            notes.append(f"{ways[how]} paired by {order}, for want of names that tell")
    if not settled:
        notes += [f"ambiguous: {_some(a.reference)} could as well have gone to others of {_some(a.candidate)}" for a in plan.ambiguous]
    return notes


def _say_unproven(result: StageResult, plan: Plan, proof: Proof | None) -> None:
    """Call a test that shows nothing about a pair's place what it is: too weak."""
    if proof is not None and proof.right:
        told = "nothing shows that this is its place: the outputs do not depend on it"
        open_ = set(undecided(plan, proof.ambiguous))
    else:
        why = "no assignment makes the outputs equal" if proof is not None else "nothing was run to prove it"
        told = f"others of its shape could stand here as well: {why}"
        open_ = plan.unsure
    for pair in result.pairs:
        if pair.key not in open_ or pair.verdict != ALIGNED or _equally_named(plan, pair.key):
            continue
        pair.verdict = UNDERPOWERED
        pair.notes.append(told)


def _equally_named(plan: Plan, name: str) -> bool:
    """Whether a tensor went to that of its own name.

    Leaves being called alike, names decide what no run shows.
    """
    moves = plan.moves_of(name)
    return bool(moves) and all(map(_keeps_name, moves))


def _keeps_name(move: Move) -> bool:
    """Whether both ends of a move have one name, leaves being called alike."""
    if move.source is None or move.target is None:
        return False
    return move.source.neutral_name == move.target.neutral_name


def _name(move: Move) -> str:
    record = move.reference if move.reference is not None else move.candidate
    return record.name if record is not None else ""


def _some(names: list[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _point(record: Record | None, capture: Capture) -> Point | None:
    """A tensor, with the lines that registered it, or else constructed its layer."""
    if record is None:
        return None
    known = history_of(capture).get(record.name)
    registered = known.lines if known is not None else []
    lines = registered or built_of(capture).get(record.name.rpartition(".")[0], [])
    line = next(iter(lines), None)
    return Point(record.name, record.op, line, code_at(line), lines[1:])
