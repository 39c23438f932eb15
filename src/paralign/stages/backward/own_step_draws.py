"""The user's own training steps that draw random numbers, with the reference's draws."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from paralign.errors import WorkerFailed
from paralign.locate.suspects import random_operations
from paralign.stages.backward.drawn_steps import DRAWN
from paralign.stages.common.judging import Method
from paralign.worker.protocol import OwnSteps, RandomOperation, Redraw
from paralign.worker.sides.session import DOUBLE, NATIVE

if TYPE_CHECKING:
    from paralign.capture import Capture
    from paralign.context import Context

    Captures = list[tuple[Capture, Capture]]

#: of a candidate that does not run in float64: the noise is that of the reference's native steps with equal draws
AGAINST_DRAWN = Method("native against float64, draws replayed", DOUBLE, NATIVE, (), 10.0)


@dataclass
class Drawn:
    """Steps of both sides with equal draws.

    Args:
        captures: of the reference and of the candidate, once for each way in which the draws may be meant (uniform numbers can count
            from above).
        method: what they are judged by.
        native: the reference's steps in its own precision, where the candidate's are.
        note: why the candidate's are not in float64.
    """

    captures: Captures
    method: Method
    native: Capture | None = None
    note: str = ""


def record(context: Context, orders: tuple[OwnSteps, OwnSteps], values: dict[str, Capture]) -> Drawn | str:
    """The steps of both sides, the candidate's with the reference's draws.

    In float64; a candidate that does not run in it is run as it is, with what the reference drew in float64.

    Args:
        context: the check.
        orders: the steps of the reference and of the candidate.
        values: inputs and labels.

    Returns:
        What was recorded, or why the steps cannot be compared.
    """
    if not all(context.about[side].observes for side in ("reference", "candidate")):
        return "what is random cannot be watched on both sides"
    try:
        return _recorded(context, orders, values)
    except WorkerFailed as failure:
        return f"with the reference's draws the {failure.side} failed with {failure.type}: {failure.message}"


def _recorded(context: Context, orders: tuple[OwnSteps, OwnSteps], values: dict[str, Capture]) -> Drawn | str:
    """As :func:`record`, of sides that can be watched."""
    ours, theirs = orders
    reference = context.reference.record("own steps drawn", replace(ours, redraw=Redraw(keep=True)), values)
    failed = _failure("reference", reference)
    if failed:
        return failed
    listed, run = context.candidate.record("own steps listed", replace(theirs, redraw=Redraw()), values), DOUBLE
    failed = _failure("candidate", listed)
    if failed:
        run = NATIVE
        listed = context.candidate.record("own steps listed", replace(theirs, runs=[run], redraw=Redraw()), values)
    pairs = _in_pairs(reference, listed)
    if isinstance(pairs, str):
        return pairs
    given = {**values, "draws": reference}
    asked = [replace(theirs, runs=[run], redraw=replace(each, drawn_in=DOUBLE)) for each in _ways(pairs)]
    usable = _usable(reference, [context.candidate.record(f"own steps redrawn {n}", order, given) for n, order in enumerate(asked)])
    if isinstance(usable, str):
        return usable
    if run == DOUBLE:
        return Drawn(usable, DRAWN)
    own = native(context, ours, values, reference)
    if own is None:
        return f"{failed}, and the reference's steps as they are could not be given the draws that it had in float64"
    return Drawn(usable, AGAINST_DRAWN, own, failed)


def _in_pairs(reference: Capture, candidate: Capture) -> list[tuple[RandomOperation, RandomOperation]] | str:
    """The random operations of a step, each beside its counterpart; or why some have none."""
    ours, theirs = (OwnSteps.answer(capture).random for capture in (reference, candidate))
    if not ours or not theirs or any(len(step) != len(ours[0]) for step in ours):
        return "later steps have other random operations than the first"
    pairs = random_operations.aligned(_numbered(ours[0]), _numbered(theirs[0]))
    whole = [(one, other) for one, other in pairs if one is not None and other is not None]
    if len(whole) < len(pairs):
        return f"{len(ours[0])} random operations in the reference's first step, {len(theirs[0])} in the candidate's"
    return whole


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


def _failure(side: str, capture: Capture) -> str:
    """What kept a side's steps from running in float64, in words; '' for nothing."""
    failed = OwnSteps.answer(capture).failed
    return f"the {side} does not run in float64: {next(iter(failed.values()))}" if failed else ""


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
        failed = _failure(side, capture)
        if failed:
            return failed
    return [(reference, c) for c in found if _all_replaced(c)] or "not every draw has a counterpart"
