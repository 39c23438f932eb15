"""Float64 runs that compute partly in a lower precision.

The model casts by itself, and float64's limit does not hold.

It is asked only where values differ by so little that such casts explain them: it takes another run of both sides.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from paralign.context import PERTURBED
from paralign.errors import WorkerFailed
from paralign.model import wrong_of
from paralign.stages.common.judging import FLOAT64
from paralign.worker.protocol import InRuns, Lowered
from paralign.worker.sides.session import DOUBLE, NATIVE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.model import Pair, Tolerance
    from paralign.stages.common.judging import Method

#: error ÷ noise from which on no rounding of a right port explains a value, whatever it computes in: the noise is measured anew (a float32
#: norm on both sides: 4), and by chance a first measurement may be some ten times too small
MOST = 100.0

#: places that a note lists
LISTED = 3


def places(
    context: Context, pairs: Sequence[Pair], method: Method, tolerance: Tolerance, order: Lowered, values: dict[str, Capture]
) -> list[str]:
    """Where float64 runs that disagree by little compute in a lower precision, in words.

    Empty where that explains nothing.

    Args:
        context: the check.
        pairs: judged by ``method``.
        method: of the stage.
        tolerance: the user's; where there is one, it decides.
        order: what is run.
        values: of the task.
    """
    wrong = wrong_of(pairs)
    asked = method is FLOAT64 and bool(wrong) and tolerance.ratio is None and not tolerance.absolute
    if not asked or any(p.ratio is None or not p.ratio <= MOST for p in wrong):
        return []
    return anywhere(context, order, values)


def anywhere(context: Context, order: Lowered, values: dict[str, Capture]) -> list[str]:
    """Where float64 runs compute in a lower precision, in words.

    Args:
        context: the check.
        order: what is run.
        values: of the task.
    """
    notes = []
    for side, recorder in (("reference", context.reference), ("candidate", context.candidate)):
        try:
            name = "-".join(filter(None, ("lowered", order.stage, order.mode)))
            found = Lowered.answer(recorder.record(name, order, values)).lowered
        except WorkerFailed:
            continue
        if found:
            more = f" and {len(found) - LISTED} more" if len(found) > LISTED else ""
            notes.append(f"the {side} computes in lower precision even where everything is float64, in {', '.join(found[:LISTED])}{more}")
    return notes


def perturbed(context: Context, order: InRuns[Any], values: dict[str, Capture]) -> Capture:
    """The reference's runs again, with some whose inputs are moved by rounding.

    They tell the noise where float64 itself rounds.
    """
    return context.reference.record(f"{order.task}-lowered", replace(order, runs=[DOUBLE, NATIVE, *PERTURBED]), values)
