"""Metric: per batch and on all batches joined, on the reference's outputs for both sides."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from paralign.model import ALIGNED, DIVERGED, StageResult
from paralign.stages import nonfinite
from paralign.stages.context import spent
from paralign.stages.data import first
from paralign.stages.judging import ROUNDING, conclude, paired, points_of

if TYPE_CHECKING:
    from paralign.capture import Capture
    from paralign.stages.context import Context

#: what a probe is for, in words
PROBES = {
    "ties": "on coarsely rounded scores, many of them equal, the metrics differ although they agree on the real ones; equal scores may be "
    "ranked in another order, which the frameworks leave open",
    "one_class": "where only one class occurs the metrics differ although they agree on the real labels; empty classes may be treated in "
    "another way",
}


def run(context: Context) -> StageResult:
    """Judge the metric; probes for ties and empty classes only warn."""
    missing = context.lacking("metric", "metric", "build_model")
    if missing:
        return missing
    if not context.has("reference", "build_dataloader") and (context.inputs is None or context.labels is None):
        return StageResult(
            "metric", notes=["no labels: define build_dataloader(split) or labels() in the reference, or set [labels] in paralign.toml"]
        )
    evaluation = context.evaluation()
    reference, candidate = context.record_both("metric", "metric", values={"evaluation": evaluation})
    result = spent(StageResult("metric"), reference, candidate)
    result.pairs = paired(
        reference, candidate, points_of(reference.records, candidate.records), ROUNDING, context.settings.tolerance_of("metric")
    )
    different = any(p.verdict == DIVERGED for p in result.pairs if not p.key.startswith("probe_"))  # a probe then tells nothing of its own
    for pair in result.pairs:
        record = pair.reference if pair.reference is not None else pair.candidate
        probe = next((name for name in PROBES if record is not None and record.name == f"probe_{name}"), None)
        if probe is not None:
            pair.judged = False
            refused = any(c.manifest.settings["answer"]["probes"].get(probe, "ok") != "ok" for c in (reference, candidate))
            if pair.verdict != ALIGNED and not refused and not different:
                result.warnings.append(f"{pair.key}: {PROBES[probe]}")
    nonfinite.excuse_seen_elsewhere([p for p in result.pairs if p.judged], lambda p: None if p.reference is None else p.reference.leaf)
    _say_refused(result, reference, candidate)
    conclude(result, ROUNDING)
    given = [evaluation.array(r) for r in evaluation.records if r.role == "output" and r.location is not None]
    if any(a.dtype.kind in "fc" and not np.isfinite(a).all() for a in given):
        result.notes.append("the reference's outputs, on which the metric is computed, hold NaN or infinities")
        nonfinite.explain(context, result)
    if result.verdict == DIVERGED:
        result.divergence = first([p for p in result.pairs if p.judged])
    return result


def _say_refused(result: StageResult, reference: Capture, candidate: Capture) -> None:
    """A probe that only one side can stand is worth a warning; one that neither can, is nothing."""
    answers = {"reference": reference.manifest.settings["answer"]["probes"], "candidate": candidate.manifest.settings["answer"]["probes"]}
    for probe in PROBES:
        refused = [side for side, probes in answers.items() if probes.get(probe, "ok") != "ok"]
        if len(refused) == 1:
            result.warnings.append(
                f"the {refused[0]}'s metric fails on the probe {probe!r} ({answers[refused[0]][probe]}), the other side's does not"
            )
