"""Element types of samples and batches that one side gives in another type than the other.

Equal values of another type are a remark, said in the stage's row; a type on which the side's own training step fails is a fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.errors import WorkerFailed
from paralign.locate.data.trace import Way
from paralign.locate.optimizer.setting_lines import code_at
from paralign.model import DIVERGED, ERROR, Coverage, Pair, Point
from paralign.stages.common import own_batches
from paralign.worker.protocol import Data, Trace

if TYPE_CHECKING:
    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.model import StageResult

#: what is no element type that could be another
TEXTS = ("text", "none")

#: both sides' types, the reference's first
Types = tuple[str, str]


def say(context: Context, result: StageResult, captures: tuple[Capture, Capture]) -> None:
    """Say in the row how many samples, or batches, have another element type.

    A type on which the candidate's own step fails makes the stage diverge.
    """
    samples, batches = _of_samples(captures), _of_batches(captures)
    for (due, own), count in samples.items():
        result.coverage.append(Coverage(f"samples in {own} for {due}", count))
    for (due, own), count in batches.items():
        if (due, own) not in samples:
            result.coverage.append(Coverage(f"batches in {own} for {due}", count))
    if not batches or result.verdict in (DIVERGED, ERROR):
        return
    for due, own in batches:
        if (due, own) not in samples:
            result.notes.append(f"batches of the loaders: {due} in the reference, {own} in the candidate, with equal values")
    found = own_batches.refusal(context)
    if found is None:
        _say_taken(context, result)
    elif found.proven and found.side == "candidate" and any((due, own) in batches for own, due in found.types.values()):
        finding = own_batches.finding(found)
        result.findings.append(finding)
        result.pairs.append(Pair("element types", None, None, verdict=DIVERGED, notes=[finding.cause]))
        result.verdict, result.divergence = DIVERGED, own_batches.divergence(found)
        made = next(filter(None, (_made_at(context, leaf, own) for leaf, (own, _) in found.types.items())), None)
        if made is not None and result.divergence.candidate is not None:
            result.divergence.candidate = Point("sample_0", "data set", made, code_at(made), [result.divergence.candidate.source or ""])


def _made_at(context: Context, leaf: str, own: str) -> str | None:
    """The candidate's line that first has a leaf of a sample in an element type.

    None where its way was not seen.
    """
    if not context.has("candidate", "build_dataset"):
        return None
    try:
        capture = context.candidate.record("trace-types", Trace(context.settings.split, 0, "dataset", [context.settings.seed]))
    except WorkerFailed:
        return None
    way = Way.read(capture, "seed-0")
    step = way.leaves.get(f"sample.{leaf}" if leaf else "sample", (None, None))[1]
    line, seen = None, set()
    while step is not None and step < len(way.steps) and step not in seen and way.steps[step].record.dtype == own:
        seen.add(step)
        line = way.steps[step].record.source or line
        step = next((number for number in way.steps[step].inputs if way.steps[number].record.dtype == own), None)
    return line


def _say_taken(context: Context, result: StageResult) -> None:
    """Say that both sides' own steps take the element types.

    Where both fail, that nothing is known.
    """
    taken = own_batches.stepped(context)
    if taken is None:
        return
    if all(one.raised is None for one in taken):
        said = f"each side's own {taken[0].ran} was run on the first batch of its own loader, and takes its element types"
    else:
        said = f"each side's own {taken[0].ran} fails on the first batch of its own loader: whether it takes the element types was not seen"
    result.notes.append(said)


def _of_samples(captures: tuple[Capture, Capture]) -> dict[Types, int]:
    """Both element types -> samples of leaves that have one type throughout."""
    first, second = (Data.answer(capture).facts or {} for capture in captures)
    found: dict[Types, int] = {}
    for leaf in first:
        kinds = [side.get(leaf, {}).get("dtypes", {}) for side in (first, second)]
        if [len(kind) for kind in kinds] != [1, 1]:
            continue
        due, own = (next(iter(kind)) for kind in kinds)
        if due != own and not {due, own} & set(TEXTS):
            found[due, own] = max(found.get((due, own), 0), kinds[1][own])
    return found


def _of_batches(captures: tuple[Capture, Capture]) -> dict[Types, int]:
    """Both element types -> the recorded batches that have a leaf of them."""
    found: dict[Types, set[str]] = {}
    theirs = {(r.name, r.leaf): r.dtype for r in captures[0].records if r.name.startswith("dataloader_") and r.role == "sample"}
    for record in captures[1].records:
        due = theirs.get((record.name, record.leaf))
        if due is not None and due != record.dtype and record.role == "sample" and not {due, record.dtype} & set(TEXTS):
            found.setdefault((due, record.dtype), set()).add(record.name)
    return {types: len(names) for types, names in found.items()}
