"""Backward fed by real batches, as many as ``[training] batches`` says, in order.

They come from the reference's loader or each side's own.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from paralign.model import ALIGNED, DIVERGED, NOT_TESTED, Coverage, Divergence, Finding, Point, StageResult, Tolerance, wrong_of
from paralign.run.pace import OWN
from paralign.stages.common.judging import ROUNDING, paired, points_of
from paralign.worker.protocol import Feed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.model import Pair


@dataclass
class Fed:
    """What the steps are fed with: captures of both sides' batches.

    None where one batch is taken again and again.

    ``refused`` is the stage's result where there is nothing to feed.
    """

    captures: tuple[Capture, Capture] | None = None
    batches: int = 0
    refused: StageResult | None = None


@contextmanager
def fed(context: Context) -> Iterator[Fed]:
    """Have real batches take the place of the check's inputs and labels, if wanted."""
    pace = context.settings.pace
    if not pace.batches:
        yield Fed()
        return
    own = pace.batches_from == OWN
    needing = ("reference", "candidate") if own else ("reference",)
    without = [side for side in needing if not context.has(side, "build_dataloader")]
    if without:
        hint = 'define it, or set batches_from = "reference"' if without == ["candidate"] else "define it, or leave [training] batches out"
        note = f"[training] batches: the {' and the '.join(without)} has no build_dataloader(split); {hint}"
        yield Fed(refused=StageResult("backward", NOT_TESTED, notes=[note]))
        return
    order = Feed(pace.split, pace.batches)
    if own:
        captures = context.record_both("feed", order)
        context.candidate.instead[str(captures[0].path)] = captures[1]
    else:
        one = context.reference.record("feed", order)
        captures = one, one
    count = min(Feed.answer(c).batches for c in captures)
    before = context.inputs, context.labels, context.settings
    context.inputs = context.labels = captures[0]
    context.settings = replace(context.settings, steps=max(1, count // pace.accumulate))
    try:
        yield Fed(captures, count)
    finally:
        context.inputs, context.labels, context.settings = before
        context.candidate.instead.clear()


def judge(context: Context, result: StageResult, fed: Fed) -> None:
    """Compare the batches that both sides were fed with, where each had its own.

    Say how many there were.
    """
    if fed.captures is None or result.verdict == NOT_TESTED:
        return
    pace = context.settings.pace
    result.coverage.append(Coverage("batches", fed.batches, pace.batches))
    if fed.batches < pace.batches:
        result.warnings.append(f"the data loader gave {fed.batches} batches, {pace.batches} were asked for")
    if pace.batches_from != OWN:
        result.notes.append("both sides were fed with the reference's batches")
        return
    ends = [[r for r in c.records if r.role == "input"] for c in fed.captures]
    pairs = paired(*fed.captures, points_of(*ends), ROUNDING, Tolerance())
    for pair in pairs:
        pair.key = f"fed {pair.key}"
    wrong = wrong_of(pairs)
    result.pairs = [*(wrong or pairs), *result.pairs]
    if wrong:
        _say(result, wrong)
    elif result.verdict == ALIGNED:
        result.notes.append("each side was fed from its own data loader: the batches are equal")


def _say(result: StageResult, wrong: list[Pair]) -> None:
    """What differs in the batches comes before all that follows from it."""
    result.verdict = DIVERGED
    name = wrong[0].key.partition(" ")[2]
    cause = f"the data loaders give other batches: {name} is the first that differs"
    fix = 'look at the stage data; or feed both sides from the reference: [training] batches_from = "reference"'
    result.findings.insert(0, Finding("data/batch", cause, fix))
    record = wrong[0].record
    place = record.key if record is not None else name
    result.divergence = Divergence(Point(place, "data loader"), Point(place, "data loader"), wrong[0], inputs_agree=False)
