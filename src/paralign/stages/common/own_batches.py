"""Each side's own step, natively, on the first batch of its own loader, with nothing cast.

Elsewhere both sides are given the same values in the model's element type: a loader that gives another one, on which the side's own
program fails, does not show there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from paralign.errors import WorkerFailed
from paralign.model import ALIGNED, DIVERGED, ERROR, UNDERPOWERED, Coverage, Divergence, Finding, Pair, Point, StageResult
from paralign.run.remedies import remedy
from paralign.stages.common import own_failures
from paralign.stages.common.batch_places import place
from paralign.worker.protocol import OwnBatch, OwnBatchTaken, Raised
from paralign.worker.protocol.wire import encode

if TYPE_CHECKING:
    from paralign.context import Context
    from paralign.run.recorder import Recorder

#: rules of the findings: a step that fails on its own batch, and one that does so because of an element type
RAISED, TYPES = "own_batch/raised", "own_batch/element-type"

#: leaves of a batch that a sentence names
NAMED = 3

SIDES = ("reference", "candidate")

#: of the captures
NAME = "own batch"


@dataclass(frozen=True)
class Refusal:
    """A side whose step fails on its own loader's first batch; the other's takes its own.

    ``types`` are the leaves that have another element type on this side, with both types, this side's first; ``proven``: with the other
    side's types the step runs.
    """

    side: str
    taken: OwnBatchTaken
    raised: Raised
    other: OwnBatchTaken
    types: dict[str, tuple[str, str]] = field(default_factory=dict)
    proven: bool = False


def stepped(context: Context) -> tuple[OwnBatchTaken, OwnBatchTaken] | None:
    """What both sides' own steps came to; None where there are none that can be compared."""
    if context.untrainable("backward") or not all(map(context.has_both, ("build_model", "build_dataloader"))):
        return None
    if context.has_both("train_step") and context.has_both("build_optimizer"):
        step = "train_step"
    elif context.has_both("loss") and not any(context.has(side, "train_step") for side in SIDES):
        step = "loss"
    else:
        return None
    order = OwnBatch(context.settings.pace.split, step)
    try:
        context.record_both(NAME, order)
    except WorkerFailed:
        pass  # asked for below, side by side
    finally:
        context.artifacts.pop(NAME, None)
    first, second = _taken(context.reference, order), _taken(context.candidate, order)
    return (first, second) if first.ran and second.ran else None


def _taken(recorder: Recorder, order: OwnBatch) -> OwnBatchTaken:
    """What one side's step came to; a process that it ends counts as a failure of the step."""
    try:
        return OwnBatch.answer(recorder.record(NAME, order))
    except WorkerFailed as failed:
        return OwnBatchTaken(order.step, raised=Raised(failed.type, failed.message, failed.traceback, failed.frames))


def refusal(context: Context) -> Refusal | None:
    """The side whose step fails on its own batch, where the other's does not."""
    taken = stepped(context)
    return None if taken is None else _refused(context, taken)


def _refused(context: Context, taken: tuple[OwnBatchTaken, OwnBatchTaken]) -> Refusal | None:
    """The side whose step fails on its own batch, where the other's does not."""
    for number, side in enumerate(SIDES):
        mine, other = taken[number], taken[1 - number]
        if mine.raised is None or other.raised is not None:
            continue
        types = {leaf: (own, other.types[leaf]) for leaf, own in mine.types.items() if other.types.get(leaf, own) != own}
        return Refusal(side, mine, mine.raised, other, types, _runs_cast(context, side, mine, types))
    return None


def _runs_cast(context: Context, side: str, mine: OwnBatchTaken, types: dict[str, tuple[str, str]]) -> bool:
    """Whether a step that fails takes the same values in the other side's element types."""
    if not types or any(not kind[-1:].isdigit() and kind != "bool" for pair in types.values() for kind in pair):
        return False
    recorder = context.reference if side == "reference" else context.candidate
    order = OwnBatch(context.settings.pace.split, mine.ran, {leaf: other for leaf, (_, other) in types.items()})
    try:
        return OwnBatch.answer(recorder.record("own batch cast", order)).raised is None
    except WorkerFailed:
        return False


def judge(context: Context, result: StageResult, *, only: str = "") -> None:
    """Add to the result of a stage that a side's step fails on its own loader's batch.

    Args:
        context: of the check.
        result: of the stage.
        only: the function that the stage is about; '' for any.
    """
    taken = stepped(context)
    if taken is None or only not in ("", taken[0].ran):
        return
    found = _refused(context, taken)
    if found is None:
        _say_halves(result, taken)
        return
    said = f"{found.raised.type}: {found.raised.message}".split("\n")[0]
    frame = f" ({found.raised.frames[-1]})" if found.raised.frames else ""
    told = f"{found.taken.ran} of the {found.side} failed with {said}{frame}"
    result.findings.insert(0, finding(found) if found.proven else _finding_by_types(context, found))
    diverged = result.verdict == DIVERGED or (found.proven and found.side == "candidate")
    verdict = DIVERGED if diverged and found.side == "candidate" else ERROR  # what the reference cannot do is no fault of the port
    result.pairs.append(Pair(f"{found.side}'s own batch", None, None, verdict=verdict, notes=[told]))
    result.divergence = result.divergence or divergence(found)
    if diverged:
        result.warnings.append(told)
        result.verdict = DIVERGED
    else:
        result.failure = result.failure or failure(context, found.side, found.raised)
        result.verdict = ERROR


def _say_halves(result: StageResult, taken: tuple[OwnBatchTaken, OwnBatchTaken]) -> None:
    """Say how many operations of a step one side alone computes in half precision.

    Where the candidate alone asks for automatic casts that its device does not know, nothing shows what it computes in elsewhere.
    """
    counts = [sum(one.halves.values()) for one in taken]
    for number, (side, one) in enumerate(zip(SIDES, taken, strict=True)):
        if counts[number] and not counts[1 - number]:
            types = ", ".join(one.halves)
            if not taken[1 - number].watched:
                result.notes.append(
                    f"{one.ran} of the {side} computes {counts[number]} operations in {types}; those of the other side were not counted: "
                    f"the first at {_short(one.half_line)}"
                )
                continue
            result.coverage.append(Coverage(f"operations of {one.ran} in {types} in the {side} alone", counts[number]))
            result.notes.append(
                f"{one.ran} of the {side} computes {counts[number]} operations in {types}, that of the other side none: "
                f"the first at {_short(one.half_line)}"
            )
    theirs = taken[0]
    for side, one in zip(SIDES, taken, strict=True):
        if not one.idle_casts:
            continue
        listed = ", ".join(_short(line) for line in one.idle_casts[:NAMED])
        said = (
            f"{one.ran} of the {side} switches automatic casts on ({listed}), which have no effect on this device: "
            "what it computes in a lower precision elsewhere was not compared. Check on such a device, or switch them off"
        )
        if one is theirs or counts[0] or theirs.idle_casts:
            result.notes.append(said)
            continue
        result.doubt(said)
        if result.verdict == ALIGNED:
            result.verdict = UNDERPOWERED


def _short(line: str | None) -> str:
    """A line with the name of its file alone."""
    return "a line that is not known" if line is None else line.rpartition("/")[2]


def _finding_by_types(context: Context, found: Refusal) -> Finding:
    """What is known of a step that the other side's types do not make run: others may."""
    recorders = (context.reference, context.candidate) if found.side == "reference" else (context.candidate, context.reference)
    order = OwnBatch(context.settings.pace.split, found.taken.ran)
    tried = own_failures.finding(found.side, order, found.taken, recorders)
    return tried if tried.proven else finding(found)


def finding(found: Refusal) -> Finding:
    """What is known of why a step fails."""
    side, other = found.side, next(each for each in SIDES if each != found.side)
    if found.proven:
        listed = list(found.types.items())
        told = ", ".join(f"{place(leaf)} in {mine} for {due}" for leaf, (mine, due) in listed[:NAMED])
        more = " …" if len(listed) > NAMED else ""
        return Finding(
            TYPES,
            f"{found.taken.ran} of the {side} fails on the first batch of its own loader, which gives {told}{more} "
            f"({found.raised.type}); it runs in the {other}'s element types",
            f"give the {other}'s element types in the data set, or cast in {found.taken.ran}",
            proven=True,
        )
    return Finding(
        RAISED,
        f"{found.taken.ran} of the {side} fails on the first batch of its own loader ({found.raised.type}); "
        f"the {other}'s takes the first batch of its own",
        f"make what the loader gives fit what {found.taken.ran} takes",
    )


def divergence(found: Refusal) -> Divergence:
    """The innermost line of the user's where a step fails."""
    where = _line_of(found.raised)
    ends = Point("own batch", found.taken.ran, found.other.line), Point("own batch", found.taken.ran, where or found.taken.line)
    return Divergence(*(ends if found.side == "candidate" else ends[::-1]))


def _line_of(raised: Raised) -> str | None:
    """``file:line`` of the innermost of the user's frames."""
    return raised.frames[-1].partition(" in ")[0] if raised.frames else None


def failure(context: Context, side: str, raised: Raised) -> dict[str, object]:
    """An exception of a side's own code, as results hold it."""
    known = remedy(raised.type, raised.message, context.framework(side))
    said = None if known is None else {"id": known.id, "fix": known.said(raised.frames)}
    return {"side": side, **encode(raised), "log": None, "remedy": said}
