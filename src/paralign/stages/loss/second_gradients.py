"""Second gradients on request, compared as first ones are.

An operation that lacks one is named.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from paralign.errors import WorkerFailed
from paralign.model import DIVERGED, Finding, Pair, Record
from paralign.stages.common.judging import choose, final, paired, points_of
from paralign.worker.protocol import Second
from paralign.worker.sides.session import DOUBLE, NATIVE

if TYPE_CHECKING:
    from paralign.context import Context
    from paralign.model import StageResult

#: how frameworks name an operation that cannot be differentiated twice
_NAMED = re.compile(r"(?:derivative for\s+['\"`]?|[Tt]he [Oo]p\s+['\"`]?|(?:operator|function)\s+['\"`])(?:aten::)?([A-Za-z_]\w*)")

#: how Paddle says it of its pooling
_TWICE = re.compile(r"([A-Za-z_]\w*) op grad grad")


def compare(context: Context, result: StageResult) -> None:
    """Add the pairs of second gradients, or say which side has none, and why."""
    values = {name: capture for name, capture in (("inputs", context.inputs), ("labels", context.labels)) if capture is not None}
    if len(values) < 2 or not context.has("candidate", "build_model"):  # noqa: PLR2004 - inputs and labels
        result.notes.append("second gradients were not taken: they need inputs, labels and build_model() on both sides")
        return
    try:
        captures = context.record_both("second", Second([DOUBLE, NATIVE]), values)
    except WorkerFailed as failed:
        result.warnings.append(f"second gradients were not taken: the {failed.side} failed with {failed.type}: {failed.message}")
        return
    finally:
        context.artifacts.pop("second", None)
    lacking = [Second.answer(c).lacking for c in captures]
    if any(lacking):
        _lacks(result, lacking)
        return
    method, notes = choose(*captures)
    points = points_of(final(captures[0], run=method.reference_run), final(captures[1], run=method.candidate_run))
    pairs = paired(*captures, points, method, context.settings.tolerance_of("loss"))
    result.pairs += pairs
    result.notes += [f"second gradients: {note}" for note in notes]
    wrong = [p.key for p in pairs if p.verdict == DIVERGED]
    told = f"{', '.join(wrong)} differ" if wrong else "agree"
    result.notes.append(f"second gradients with respect to the inputs, and their norm over all parameters, {told}")


def _lacks(result: StageResult, lacking: list[str]) -> None:
    """What has no second gradient; on one side alone it is a divergence."""
    for side, other, why in (("reference", lacking[1], lacking[0]), ("candidate", lacking[0], lacking[1])):
        if not why:
            continue
        named = _NAMED.search(why) or _TWICE.search(why)
        told = f"the {side} has no second gradient" + (f" of {named.group(1)}" if named else "") + f": {why}"
        result.warnings.append(told)
        if not other:
            end = Record(0, "second", "loss", "gradient", "none", ())
            result.pairs.append(Pair("second", end, end, verdict=DIVERGED, notes=[told]))
            fix = "write the operation of others that have one (a max pooling as unfold and max), or leave the penalty out"
            result.findings.append(Finding("loss/second-gradient", told, fix, proven=True))
