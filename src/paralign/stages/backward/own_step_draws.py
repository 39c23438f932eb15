"""The user's own training steps that draw random numbers, with the reference's draws."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from paralign.errors import WorkerFailed
from paralign.locate.suspects import random_operations
from paralign.stages.backward.drawn_steps import DRAWN
from paralign.worker.protocol import OwnSteps, RandomOperation, Redraw
from paralign.worker.session import DOUBLE, NATIVE

if TYPE_CHECKING:
    from paralign.capture import Capture
    from paralign.context import Context

    Captures = list[tuple[Capture, Capture]]

#: what the steps are judged by
METHOD = DRAWN


def record(context: Context, orders: tuple[OwnSteps, OwnSteps], values: dict[str, Capture]) -> Captures | str:
    """The steps of both sides in float64, the candidate's with the reference's draws.

    Args:
        context: the check.
        orders: the steps of the reference and of the candidate.
        values: inputs and labels.

    Returns:
        Both captures, once for each way in which the draws may be meant (uniform numbers can count from above); or why there are none.
    """
    if not all(context.about[side].observes for side in ("reference", "candidate")):
        return "what is random cannot be watched on both sides"
    ours, theirs = orders
    try:
        reference = context.reference.record("own steps drawn", replace(ours, redraw=Redraw(keep=True)), values)
        listed = context.candidate.record("own steps listed", replace(theirs, redraw=Redraw()), values)
        random = [OwnSteps.answer(capture).random for capture in (reference, listed)]
        if not all(random) or any(len(step) != len(random[0][0]) for step in random[0]):
            return "later steps have other random operations than the first"
        pairs = random_operations.aligned(*(_numbered(steps[0]) for steps in random))
        whole = [(one, other) for one, other in pairs if one is not None and other is not None]
        if len(whole) < len(pairs):
            return f"{len(random[0][0])} random operations in the reference's first step, {len(random[1][0])} in the candidate's"
        given = {**values, "draws": reference}
        asked = [replace(theirs, redraw=each) for each in _ways(whole)]
        found = [context.candidate.record(f"own steps redrawn {n}", order, given) for n, order in enumerate(asked)]
    except WorkerFailed as failure:
        return f"with the reference's draws the {failure.side} failed with {failure.type}: {failure.message}"
    return _usable(reference, found)


def native(context: Context, order: OwnSteps, values: dict[str, Capture], reference: Capture) -> Capture | None:
    """The reference's steps in its own precision, with the draws that it had in float64.

    None where that fails.
    """
    drawn = _numbered(OwnSteps.answer(reference).random[0])
    use = {str(said.number): said.name for said in drawn}
    again = replace(order, runs=[NATIVE], redraw=Redraw(use=use, drawn_in=DOUBLE))
    try:
        found = context.reference.record("own steps native", again, {**values, "draws": reference})
    except WorkerFailed:
        return None
    return found if _all_replaced(found) else None


def _all_replaced(capture: Capture) -> bool:
    """Whether every draw of the steps was given a value."""
    return all(said.given is not None for step in OwnSteps.answer(capture).random for said in step)


def _ways(pairs: list[tuple[RandomOperation, RandomOperation]]) -> list[Redraw]:
    """The draws in place, as they are.

    Where uniform numbers are among them, also counted from above.
    """
    use = {str(two.number): one.name for one, two in pairs}
    ways = [Redraw(use=use)]
    turned = sorted(number for line in random_operations.mirrors(pairs) for number in line)
    if turned:
        ways.append(Redraw(use=use, mirrored=turned))
    return ways


def _numbered(step: list[RandomOperation]) -> list[RandomOperation]:
    """What one step drew, numbered among the random operations alone."""
    return [replace(said, number=number) for number, said in enumerate(step)]


def _usable(reference: Capture, found: list[Capture]) -> Captures | str:
    """The captures in which every draw was replaced; or why there are none."""
    for side, capture in [("reference", reference), *(("candidate", c) for c in found)]:
        failed = OwnSteps.answer(capture).failed
        if failed:
            return f"the {side} fails: {next(iter(failed.values()))}"
    return [(reference, c) for c in found if _all_replaced(c)] or "not every draw has a counterpart"
