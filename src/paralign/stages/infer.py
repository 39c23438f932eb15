"""Infer: the prediction program on real files, and the exported program against the eager model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.comparison import compare_pair
from paralign.context import spent
from paralign.dtypes import EPS
from paralign.model import DIVERGED, Noise, Pair, StageResult
from paralign.registry import SIGNATURES
from paralign.stages import forward
from paralign.stages.data import first
from paralign.stages.judging import Method, conclude, paired, points_of, settle

if TYPE_CHECKING:
    from paralign.capture import Capture
    from paralign.context import Context

#: programs run in the model's own precision: their noise is that of the reference's outputs
PROGRAM = Method("native", "", "", (), 10.0)

#: where the reference's noise cannot be measured, for want of inputs: this many roundings
ROUNDINGS = 100.0


def run(context: Context) -> StageResult:
    """Judge predictions between the sides, and on each side the exported program against the eager one."""
    sides = {"reference": context.reference, "candidate": context.candidate}
    exports = [side for side in sides if context.has(side, "export")]
    missing = context.lacking("infer", "predict")
    if missing and not exports:
        return StageResult("infer", notes=[*missing.notes, f"neither side has {SIGNATURES['export']}"])
    if not all(context.has(side, "build_model") for side in sides):
        return StageResult("infer", notes=["both sides need build_model()"])
    values = {"inputs": context.inputs} if context.inputs is not None else {}
    reference, candidate = context.record_both("infer", "infer", {"paths": context.settings.paths}, values)
    result = spent(StageResult("infer"), reference, candidate)
    if missing:
        result.notes += missing.notes
    elif not context.settings.paths:
        result.notes.append("no paths to predict from: set [infer] paths")
    predictions = [[r for r in c.records if r.name.startswith("predict_")] for c in (reference, candidate)]
    result.pairs = paired(reference, candidate, points_of(*predictions), PROGRAM, context.settings.tolerance_of("infer"))
    for side, capture in (("reference", reference), ("candidate", candidate)):
        result.pairs += _exported(side, capture)
        result.notes.append(f"{side}: export: {capture.manifest.settings['answer']['export']}")
    _raise_noise(result.pairs, forward.noise(context))
    settle(result.pairs, PROGRAM, context.settings.tolerance_of("infer"))
    conclude(result, PROGRAM)
    if result.verdict == DIVERGED:
        result.divergence = first(result.pairs)
    return result


def _exported(side: str, capture: Capture) -> list[Pair]:
    pairs = []
    for eager, exported, how in points_of(capture.select(name="eager"), capture.select(name="exported")):
        values = [capture.value(r) if r is not None and r.location is not None else None for r in (eager, exported)]
        pair = compare_pair(
            f"{side}'s export{'.' + eager.leaf if eager is not None and eager.leaf else ''}", eager, exported, values[0], values[1], how=how
        )
        pair.noise = Noise(EPS[eager.dtype], f"one rounding of {eager.dtype}") if eager is not None and eager.dtype in EPS else None
        pairs.append(pair)
    return pairs


def _raise_noise(pairs: list[Pair], outputs: Noise | None) -> None:
    """Programs are as noisy as the model's outputs; without a measurement, some roundings are granted."""
    for pair in pairs:
        if pair.noise is not None:
            granted = Noise(pair.noise.value * ROUNDINGS, f"{ROUNDINGS:g} roundings") if outputs is None else outputs
            pair.noise = max(pair.noise, granted, key=lambda n: n.value)
