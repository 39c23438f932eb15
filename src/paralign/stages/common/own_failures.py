"""Whether a function that fails in a check fails in the side's own program too.

That is on its own model's outputs, and on its own loader's batch.

One that does not fails on what the check gives it alone: whether the port is at fault is not known then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.errors import WorkerFailed
from paralign.model import ERROR, Finding
from paralign.stages.common.batch_places import place
from paralign.worker.protocol import OwnBatch, OwnBatchTaken

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from paralign.context import Context
    from paralign.model import StageResult
    from paralign.run.recorder import Recorder

#: rule of the finding
RULE = "own_batch/fails"

#: stages whose functions take a batch -> what is run of a side's program
STEPS = {"metric": ("metric",), "loss": ("loss",), "backward": ("train_step", "loss")}

#: element types that are tried in place of one that a function refuses
OTHERS = {
    "bool": ("int64", "float32"),
    "int8": ("int64",),
    "uint8": ("int64", "float32"),
    "int16": ("int64",),
    "int32": ("int64", "float32"),
    "int64": ("int32", "float32"),
    "float16": ("float32",),
    "bfloat16": ("float32",),
    "float64": ("float32",),
}


def explain(context: Context, result: StageResult) -> None:
    """Add to a stage that failed whether the side's own program fails so too.

    And which element types it takes.

    Args:
        context: of the check.
        result: of the stage.
    """
    side = None if result.failure is None else result.failure.get("side")
    if result.verdict != ERROR or result.findings or result.name not in STEPS or side not in ("reference", "candidate"):
        return
    recorder, other = (context.reference, context.candidate) if side == "reference" else (context.candidate, context.reference)
    for step in STEPS[result.name]:
        order = OwnBatch(context.settings.split if step == "metric" else context.settings.pace.split, step)
        taken = _taken(recorder, order)
        if taken is not None and taken.ran:
            _say(result, str(side), order, taken, (recorder, other))
            return


def _taken(recorder: Recorder, order: OwnBatch) -> OwnBatchTaken | None:
    """What a side's function came to on its own batch.

    None where the process did not live to tell.
    """
    try:
        return OwnBatch.answer(recorder.record("own batch", order))
    except WorkerFailed:
        return None


def _say(result: StageResult, side: str, order: OwnBatch, taken: OwnBatchTaken, recorders: tuple[Recorder, Recorder]) -> None:
    """Say what a side's function came to on the first batch of its own loader."""
    if taken.raised is None:
        result.warnings.append(
            f"{order.step} of the {side} runs on the first batch of its own loader ({_listed(taken.types)}): it fails on what the check "
            "gives it alone"
        )
        return
    result.findings.append(finding(side, order, taken, recorders))


def finding(side: str, order: OwnBatch, taken: OwnBatchTaken, recorders: tuple[Recorder, Recorder]) -> Finding:
    """What is known of a function that fails on its own batch.

    Proven where it runs in another element type.

    Args:
        side: whose function it is.
        order: that was run.
        taken: what it came to.
        recorders: of this side and of the other.
    """
    other = "candidate" if side == "reference" else "reference"
    theirs = _taken(recorders[1], order)
    found = next(_runs_with(recorders[0], order, taken), None)
    if theirs is None or not theirs.ran:
        beside = f"whether {order.step} of the {other} takes the first batch of its own was not seen"
    elif theirs.raised is None:
        beside = f"{order.step} of the {other} takes the first batch of its own, which gives {_listed(theirs.types)}"
    else:
        beside = f"so does {order.step} of the {other} on the first batch of its own ({theirs.raised.type})"
    with_types = "" if found is None else f". With {place(found[0])} in {found[1]} it runs"
    raised = "" if taken.raised is None else taken.raised.type
    cause = (
        f"{order.step} of the {side} fails in its own program too: on the first batch of its own loader, which gives "
        f"{_listed(taken.types)} ({raised}); {beside}{with_types}"
    )
    fix = f"cast {place(found[0])} to {found[1]} in {order.step}, or in the data set" if found is not None else "mend it there first"
    return Finding(RULE, cause, fix, proven=found is not None)


def _runs_with(recorder: Recorder, order: OwnBatch, taken: OwnBatchTaken) -> Iterator[tuple[str, str]]:
    """Leaves of the batch, each with an element type in which the function runs."""
    for leaf, dtype in _labels_first(taken.types):
        for other in OTHERS.get(dtype, ()):
            tried = _taken(recorder, OwnBatch(order.split, order.step, {leaf: other}))
            if tried is not None and tried.ran and tried.raised is None:
                yield leaf, other


def _labels_first(types: dict[str, str]) -> Iterable[tuple[str, str]]:
    """Leaves of a batch with their types, those behind first: labels mostly are."""
    return reversed(list(types.items()))


def _listed(types: dict[str, str]) -> str:
    """The element types of a batch in words."""
    shown = [f"{place(leaf)} in {dtype}" for leaf, dtype in types.items()]
    return ", ".join([*shown[:4], *(["…"] if len(shown) > 4 else [])])  # noqa: PLR2004 - as many fit a line
