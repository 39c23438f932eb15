"""Whether a function that fails in a check fails in the side's own program too.

That is on its own model's outputs, and on its own loader's batch.

One that does not fails on what the check gives it alone: whether the port is at fault is not known then.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from paralign.errors import WorkerFailed
from paralign.model import ERROR, Finding
from paralign.stages.common.batch_places import place
from paralign.worker.protocol import OwnBatch, OwnBatchTaken

if TYPE_CHECKING:
    from collections.abc import Iterable

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

#: runs with other element types that an error is worth, each of which builds the loader anew, and seconds from which on none is begun: most
#: errors are none of types, and a batch may have any number of leaves
RUNS, SECONDS = 8, 30.0


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
    found = _runs_with(recorders[0], order, taken)
    if theirs is None or not theirs.ran:
        beside = f"whether {order.step} of the {other} takes the first batch of its own was not seen"
    elif theirs.raised is None:
        beside = f"{order.step} of the {other} takes the first batch of its own, which gives {_listed(theirs.types)}"
    else:
        beside = f"so does {order.step} of the {other} on the first batch of its own ({theirs.raised.type})"
    cast = "" if found is None else _several([place(leaf) for leaf in found[0]])
    with_types = "" if found is None else f". With {cast} in {found[1]} it runs"
    raised = "" if taken.raised is None else taken.raised.type
    cause = (
        f"{order.step} of the {side} fails in its own program too: on the first batch of its own loader, which gives "
        f"{_listed(taken.types)} ({raised}); {beside}{with_types}"
    )
    fix = f"cast {cast} to {found[1]} in {order.step}, or in the data set" if found is not None else "mend it there first"
    return Finding(RULE, cause, fix, proven=found is not None)


def _runs_with(recorder: Recorder, order: OwnBatch, taken: OwnBatchTaken) -> tuple[tuple[str, ...], str] | None:
    """Leaves of the batch, and an element type in which the function runs; few where few do.

    All leaves of a type are cast at once first, then single ones, as far as RUNS and SECONDS go.
    """
    trials = _Trials(recorder, order)
    by_type: dict[str, list[str]] = {}
    for leaf, dtype in _labels_first(taken.types):
        by_type.setdefault(dtype, []).append(leaf)
    wanted = [(tuple(leaves), other) for dtype, leaves in by_type.items() for other in OTHERS.get(dtype, ())]
    whole = next((each for each in wanted if trials.runs(*each)), None)
    singles = (((leaf,), other) for leaves, other in ([whole] if whole else wanted) for leaf in leaves)
    return next((each for each in singles if trials.runs(*each)), whole)


class _Trials:
    """Runs of a function with leaves of its batch cast: a bounded number, each made once.

    Args:
        recorder: of the side.
        order: that the function fails with.
    """

    def __init__(self, recorder: Recorder, order: OwnBatch) -> None:
        self._recorder, self._order = recorder, order
        self._known: dict[tuple[tuple[str, ...], str], bool] = {}
        self._until = time.monotonic() + SECONDS

    def runs(self, leaves: tuple[str, ...], dtype: str) -> bool:
        """Whether the function was seen to run with leaves in an element type."""
        if (leaves, dtype) not in self._known:
            if len(self._known) >= RUNS or time.monotonic() > self._until:
                return False
            tried = _taken(self._recorder, OwnBatch(self._order.split, self._order.step, dict.fromkeys(leaves, dtype)))
            self._known[leaves, dtype] = tried is not None and tried.ran != "" and tried.raised is None
        return self._known[leaves, dtype]


def _labels_first(types: dict[str, str]) -> Iterable[tuple[str, str]]:
    """Leaves of a batch with their types, those behind first: labels mostly are."""
    return reversed(list(types.items()))


def _listed(types: dict[str, str]) -> str:
    """The element types of a batch in words."""
    return _several([f"{place(leaf)} in {dtype}" for leaf, dtype in types.items()])


def _several(shown: list[str]) -> str:
    return ", ".join([*shown[:4], *(["…"] if len(shown) > 4 else [])])  # noqa: PLR2004 - as many fit a line
