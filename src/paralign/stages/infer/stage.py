"""Predictions on real files, and the exported program against the eager model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from paralign.comparison import compare_pair
from paralign.context import spent
from paralign.dtypes import EPS
from paralign.locate.provenance import tracing_back
from paralign.model import ALIGNED, DIVERGED, ERROR, Listing, Noise, Pair, StageResult, overall
from paralign.registry import SIGNATURES
from paralign.stages.common import own_batches
from paralign.stages.common.judging import Method, conclude, paired, points_of, settle
from paralign.stages.data.stage import first
from paralign.stages.forward import stage as forward
from paralign.stages.infer import programs, rounded, undecided, wrong_prediction
from paralign.worker.protocol import Infer, OperatorTimes, PartFailed

if TYPE_CHECKING:
    from paralign.capture import Capture
    from paralign.context import Context

#: programs run in the model's own precision: their noise is that of the reference's outputs
PROGRAM = Method("native", "", "", (), 10.0)

#: where the reference's noise cannot be measured, for want of inputs: this many roundings
ROUNDINGS = 100.0


def run(context: Context) -> StageResult:
    """Judge predictions between the sides, and exported programs against eager models.

    Predictions are by functions and by programs.
    """
    result = StageResult("infer")
    commands, missing = context.settings.commands, context.lacking("infer", "predict")
    exports = [side for side in ("reference", "candidate") if context.has(side, "export")]
    if missing and not commands:
        result.notes += missing.notes
    if missing and not exports and not commands:
        result.notes.append(f"neither side has {SIGNATURES['export']}")
        return result
    if not context.settings.paths and (missing is None or commands):
        result.notes.append("no paths to predict from: set [infer] paths")
    outputs = forward.noise(context)
    if missing is None or exports:
        _functions(context, result, outputs, [] if missing else context.settings.paths)
    if commands and context.settings.paths:
        programs.run(context, result, outputs)
    conclude(result, PROGRAM)
    if result.wrong:
        result.verdict = DIVERGED  # that holds whatever else failed
        result.divergence = first(result.pairs)
        if context.explains:
            wrong_prediction.follow(context, result)
            _trace_back(context, result)
    return result


def _trace_back(context: Context, result: StageResult) -> None:
    """Name the line that makes a prediction wrong, unless a cause that was tried has shown it.

    The way of a prediction, line by line, is followed first: it knows causes. What led to a value knows its line better.
    """
    divergence = result.divergence
    pair = divergence.pair if divergence is not None else None
    if divergence is None or pair is None or pair.candidate is None or pair.reference is None:
        return
    if divergence.candidate is None or divergence.confirmed or not context.has("candidate", "predict"):
        return
    if wrong_prediction.kind_of(pair) != "predict":
        return
    sides = tracing_back.recorded(context, "infer", paths=context.settings.paths[: wrong_prediction.number_of(pair) + 1])
    if sides is None:
        return
    names = [f"{r.name}:{r.leaf}" for r in (pair.candidate, pair.reference)]
    found = tracing_back.of_value(sides, names[0], names[1], _right_beside(result, pair))
    if found is not None and divergence.candidate.source not in (None, found.source):
        divergence.reference, divergence.last_agreeing = None, None  # what stood beside the other line says nothing of this one
        divergence.candidate.name, divergence.candidate.op = pair.candidate.name, ""
        result.findings = [finding for finding in result.findings if finding.proven]
    tracing_back.name(divergence, found)


def _right_beside(result: StageResult, wrong: Pair) -> list[str]:
    """The values of one prediction that are right: what led to them is."""
    number = wrong_prediction.number_of(wrong)
    same = [p for p in result.pairs if p.candidate is not None and p.verdict == ALIGNED and p.judged]
    same = [p for p in same if wrong_prediction.kind_of(p) == "predict" and wrong_prediction.number_of(p) == number]
    return [f"{p.candidate.name}:{p.candidate.leaf}" for p in same if p.candidate is not None]


def _functions(context: Context, result: StageResult, outputs: Noise | None, paths: list[str]) -> None:
    """Record and judge ``predict`` on the paths, and ``export``."""
    if not context.has_both("build_model"):
        result.notes.append("both sides need build_model()")
        return
    values = {"inputs": context.inputs} if context.inputs is not None else {}
    reference, candidate = context.record_both("infer", Infer(paths, bool(context.settings.operators)), values)
    spent(result, reference, candidate)
    broken = _failures(reference, candidate)
    if not any(each.part == "predict" for each in broken):
        predictions = [[r for r in c.records if r.name.startswith("predict_")] for c in (reference, candidate)]
        result.pairs = paired(reference, candidate, points_of(*predictions), PROGRAM, context.settings.tolerance_of("infer"))
    for side, capture in (("reference", reference), ("candidate", candidate)):
        answer = Infer.answer(capture)
        if not any(each.side == side and each.part == "export" for each in broken):
            result.pairs += _exported(side, capture)
        result.notes.append(f"{side}: export: {answer.export}")
        result.notes += _operators(side, answer.operators, context.settings.operators)
    _raise_noise(result.pairs, outputs)
    settle(result.pairs, PROGRAM, context.settings.tolerance_of("infer"))
    undecided.excuse(context, result, reference, candidate)
    rounded.excuse(context, result, reference, candidate)
    if broken:
        _tell_failures(result, broken, context)


@dataclass(frozen=True)
class Broken:
    """A part of a side's program that raised."""

    side: str
    part: str
    failed: PartFailed

    @property
    def key(self) -> str:
        """What its pair is called."""
        return f"{self.side}'s {self.part}"


def _failures(*captures: Capture) -> list[Broken]:
    sides = zip(("reference", "candidate"), captures, strict=True)
    return [Broken(side, part, failed) for side, c in sides for part, failed in Infer.answer(c).failed.items()]


def _tell_failures(result: StageResult, broken: list[Broken], context: Context) -> None:
    """Add a pair of verdict ``error`` for every part that raised, and a table of all parts.

    The others keep their verdicts.
    """
    parts: dict[str, list[str]] = {}
    for pair in result.pairs:
        known = pair.reference or pair.candidate
        predicted = known is not None and known.name.startswith("predict_")
        parts.setdefault("predictions" if predicted else pair.key.partition(" (")[0].partition(".")[0], []).append(pair.verdict)
    rows = [[name, overall(verdicts), f"{len(verdicts)} values"] for name, verdicts in parts.items()]
    for each in broken:
        said = f"{each.failed.raised.type}: {each.failed.raised.message}"
        where = f" for {each.failed.path}" if each.failed.path else ""
        result.pairs.append(Pair(each.key, None, None, verdict=ERROR, notes=[f"it failed{where}: {said}"]))
        rows.append([each.key, ERROR, said.partition("\n")[0]])  # in full below it
    result.tables.append(Listing("parts", ["part", "verdict", "said"], rows))
    first = broken[0]
    result.failure = own_batches.failure(context, first.side, first.failed.raised)


def _operators(side: str, told: OperatorTimes | None, most: int) -> list[str]:
    """The slowest operators of an exported program, or why they are not known."""
    if told is None:
        return []
    if not told.rows:
        return [f"{side}: times of operators: {told.none}"]
    total = sum(milliseconds for _, milliseconds, _ in told.rows) or 1.0
    rows = [f"{name} {ms:.3g} ms ({ms / total:.0%}{f', {calls} calls' if calls > 1 else ''})" for name, ms, calls in told.rows[:most]]
    return [f"{side}: times of operators, one run of the exported program, {len(rows)} of {len(told.rows)}: {'; '.join(rows)}"]


def _exported(side: str, capture: Capture) -> list[Pair]:
    pairs: list[Pair] = []
    for run in dict.fromkeys(record.run for record in capture.select(name="eager")):
        pairs += _exported_run(side, capture, run)
    return pairs


def _exported_run(side: str, capture: Capture, run: str) -> list[Pair]:
    """Compare the exported program with the eager model, on one size of batch.

    The run '' has the check's inputs.
    """
    pairs = []
    where = f" ({run.replace('-', ' of ')})" if run else ""
    for eager, exported, how in points_of(capture.select(name="eager", run=run), capture.select(name="exported", run=run)):
        values = [capture.value(r) if r is not None and r.location is not None else None for r in (eager, exported)]
        pair = compare_pair(
            f"{side}'s export{where}{'.' + eager.leaf if eager is not None and eager.leaf else ''}",
            eager,
            exported,
            values[0],
            values[1],
            how=how,
        )
        pair.noise = Noise(EPS[eager.dtype], f"one rounding of {eager.dtype}") if eager is not None and eager.dtype in EPS else None
        pairs.append(pair)
    return pairs


def _raise_noise(pairs: list[Pair], outputs: Noise | None) -> None:
    """Programs are as noisy as the model's outputs.

    Without a measurement, some roundings are granted.
    """
    for pair in pairs:
        if pair.noise is not None:
            granted = Noise(pair.noise.value * ROUNDINGS, f"{ROUNDINGS:g} roundings") if outputs is None else outputs
            pair.noise = max(pair.noise, granted, key=lambda n: n.value)
