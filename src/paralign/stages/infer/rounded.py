"""Predictions that differ by rounding alone: in float64 they agree.

A difference of neighbours, a quotient of small numbers enlarge the rounding of the outputs that they are made of.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from paralign.dtypes import EPS
from paralign.errors import WorkerFailed
from paralign.locate.data.distances import apart
from paralign.model import Noise, Pair
from paralign.stages.common.judging import Method, settle
from paralign.stages.infer.rounded_weights import moved, paths_of
from paralign.worker.protocol import Infer, Lowered

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.model import Record, StageResult
    from paralign.stages.infer.rounded_weights import Moved

#: relative L2 distance of two predictions in float64 up to which they agree: rounding of float64, enlarged as much as that of float32
AGREE = 1e-9

#: relative L2 distance in float64 up to which float32 on the way to the first weights explains it: some of its roundings
ROUNDED = 4 * EPS["float32"]

#: relative L2 distance beyond which rounding is no explanation
FAR = 1e-2

#: what the reference's own distance from float64 explains, ten times over
OWN = Method("native", "", "", (), 10.0)

#: what weights that are moved by rounding explain
MOVED = Method("native", "", "", (), 5.0)

#: elements of which one distance may be small by chance
FEW = 4

#: a prediction that moves by more, or in one run by this many times the median, is decided by a threshold, not by rounding
SLIGHT, JUMP = 1e-4, 10.0


def excuse(context: Context, result: StageResult, reference: Capture, candidate: Capture) -> None:
    """Judge floating predictions by the reference's own rounding, where both agree in float64.

    Args:
        context: the check.
        result: its pairs are judged.
        reference: the predictions of the reference.
        candidate: those of the candidate.
    """
    wrong = [pair for pair in result.pairs if pair.wrong and _is_near(pair)]
    if not wrong:
        return
    paths = paths_of(wrong)
    exact = _in_double(context, paths)
    left, agreed = [], []
    for pair in wrong:
        own = None if exact is None else _own_distance(pair, paths, (reference, candidate), exact)
        if own is None:
            left += [pair] if exact is None or not _shows_in_double(pair, paths, exact) else []
            continue
        pair.noise = Noise(own, "the reference's own distance from float64")
        settle([pair], OWN, context.settings.tolerance_of("infer"))
        if not pair.wrong:
            pair.notes.append("in float64 both sides' predictions agree")
            result.notes.append(
                f"{pair.key}: {pair.error or 0.0:.2g} apart, where rounding moves the reference's by {own:.2g}; in float64 they agree"
            )
        elif pair.reference is not None and math.prod(pair.reference.shape) <= FEW:
            agreed.append(pair)
    if left or agreed:
        _excuse_moved(context, result, [*left, *agreed], paths, reference, exact)


def _in_double(context: Context, paths: list[str]) -> tuple[Capture, Capture] | None:
    """Both sides' predictions with models in float64; None where a program does not run so."""
    order = Infer(paths, double=True)
    try:
        exact = context.reference.record("infer float64", order, {}), context.candidate.record("infer float64", order, {})
    except WorkerFailed:
        return None
    return None if any(Infer.answer(capture).failed for capture in exact) else exact


def _shows_in_double(pair: Pair, paths: list[str], exact: tuple[Capture, Capture]) -> bool:
    """Whether a difference is one of float64 as well: then it is none of rounding.

    A program whose inputs are of float32 computes in it up to the first weights. Then two right ones differ in float64, too, but by
    less than a prediction made of float32 is apart from itself.
    """
    far = _apart_in_double(pair, paths, exact)
    return far is not None and far > min(pair.noise_value, ROUNDED)


def _excuse_moved(
    context: Context, result: StageResult, wrong: list[Pair], paths: list[str], native: Capture, exact: tuple[Capture, Capture] | None
) -> None:
    """Judge predictions of few numbers, and those of programs that compute in float32.

    The reference's weights are moved by rounding, and the median of how far its prediction then moves is the noise. ``exact``: both
    sides' predictions in float64, where there are any; some programs compute in float32 in part.
    """
    found = moved(context, paths)
    if found is None:
        return
    steps: list[bool | None] = []  # asked once, where it matters
    for pair in wrong:
        own = None if pair.reference is None else _moved_distance(pair.reference, native, found)
        if own is None or own <= pair.noise_value:
            continue
        far = _apart_in_double(pair, paths, exact)
        if far is not None and far > AGREE:
            steps = steps or [_has_float32(context, paths)]
            if steps == [False]:
                continue
        pair.noise = Noise(own, "how far rounding of its weights moves the reference's")
        settle([pair], MOVED, context.settings.tolerance_of("infer"))
        if not pair.wrong:
            result.notes.append(
                f"{pair.key}: {pair.error or 0.0:.2g} apart, where rounding of its weights moves the reference's by {own:.2g}; "
                f"{_said_of_double(far, seen=steps == [True])}"
            )


def _apart_in_double(pair: Pair, paths: list[str], exact: tuple[Capture, Capture] | None) -> float | None:
    """How far both sides' predictions are apart in float64; None where there are none."""
    held = [None, None] if exact is None else _held(pair, paths, exact)
    return None if held[0] is None or held[1] is None else apart(held[0], held[1])


def _has_float32(context: Context, paths: list[str]) -> bool | None:
    """Whether a side is seen to compute in less than float64 in its run in float64.

    None where the operations of a side cannot be watched, and the other does not.
    """
    seen: list[bool | None] = []
    for recorder in (context.reference, context.candidate):
        try:
            found = Lowered.answer(recorder.record("infer lowered", Lowered("infer", paths=paths), {}))
        except WorkerFailed:
            seen.append(None)
            continue
        seen.append(bool(found.lowered) if found.watched else None)
    if True in seen:
        return True
    return None if None in seen else False


def _said_of_double(far: float | None, *, seen: bool) -> str:
    """How far both sides' predictions are apart in float64; ``seen``: steps in float32 are."""
    if far is None:
        return "in float64 the programs do not run"
    if far <= AGREE:
        return "in float64 they agree"
    if seen:
        return f"in float64 by {far:.2g}, no more than steps in float32 bring"
    return f"in float64 by {far:.2g}, less than four roundings of float32 (whether any step is in float32 could not be seen)"


def _moved_distance(record: Record, native: Capture, found: Moved) -> float | None:
    """The median of how far a prediction moves with its weights.

    None where it does not repeat as they are, moves by jumps, or by more than rounding does.
    """
    here = native.array(record)
    far = sorted(apart(each, here) for each in found.of(native, record))
    if not far:
        return None
    own = far[len(far) // 2]
    return own if own <= SLIGHT and far[-1] <= JUMP * own else None


def _is_near(pair: Pair) -> bool:
    first, second = pair.reference, pair.candidate
    if first is None or second is None or first.location is None or second.location is None or "path" not in first.attrs:
        return False
    if first.shape != second.shape or "float" not in first.dtype:
        return False
    return pair.error is not None and pair.error <= FAR


def _own_distance(pair: Pair, paths: list[str], native: tuple[Capture, Capture], exact: tuple[Capture, Capture]) -> float | None:
    """How far the reference's prediction is from its own in float64.

    None where the sides do not agree there, or one did not compute in it.
    """
    held = _held(pair, paths, exact)
    if pair.reference is None or held[0] is None or held[1] is None:
        return None
    if apart(held[0], held[1]) > AGREE:
        return None
    own = apart(held[0], native[0].array(pair.reference))
    return own if math.isfinite(own) else None


def _held(pair: Pair, paths: list[str], exact: tuple[Capture, Capture]) -> list[NDArray[Any] | None]:
    """Both sides' predictions in float64, None where there is none."""
    if pair.reference is None or pair.candidate is None:
        return [None, None]
    name = f"predict_{paths.index(str(pair.reference.attrs['path']))}"
    return [_found(capture, name, record) for capture, record in zip(exact, (pair.reference, pair.candidate), strict=True)]


def _found(capture: Capture, name: str, wanted: Record) -> NDArray[Any] | None:
    """A prediction in float64, of the same shape as the native one."""
    for record in capture.select(name=name, leaf=wanted.leaf):
        if record.location is not None and record.shape == wanted.shape and record.dtype == "float64":
            return capture.value(record).array
    return None
