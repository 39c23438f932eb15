"""The native gradients of the first step.

A backward pass in lower precision does not show where all is float64.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.errors import WorkerFailed
from paralign.model import ALIGNED, DIVERGED, UNDERPOWERED
from paralign.stages.backward.step_pairs import Steps
from paralign.stages.common.judging import FLOAT64, Method
from paralign.worker.protocol import Backward
from paralign.worker.sides.session import DOUBLE, NATIVE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.model import Pair, StageResult

#: all gradients together may be this much further from the reference's float64 run than its own native ones are, and at least this far:
#: kernels of float32 are within a tenth of both, a bfloat16 or float16 on the way is ten times and more beyond
LIMIT, LEAST = 100.0, 1e-6

Array = np.ndarray[Any, Any]

#: runs with inputs moved by rounding: each passes a kink that is near enough with a chance of a half
MOVED = tuple(f"perturbed-{number}" for number in range(8))

_NATIVE = Method("native", DOUBLE, NATIVE, (NATIVE,), LIMIT)


def judge(context: Context, result: StageResult, captures: tuple[Capture, Capture], method: Method) -> None:
    """Hold the candidate's native gradients in train mode against the reference's float64.

    All of them together.

    Single gradients may cancel out in one kernel and not in another; their sum of squares does not.

    Args:
        context: of the check.
        result: of the stage, whose float64 gradients were judged; diverges where native ones do.
        captures: both sides' steps.
        method: by which train mode was judged.
    """
    tolerance = context.settings.tolerance_of("backward")
    is_derived = not tolerance.absolute and tolerance.ratio is None
    if result.verdict != ALIGNED or method is not FLOAT64 or not is_derived:
        return
    exact, native = f"{DOUBLE}:train", f"{NATIVE}:train"
    needed = ((captures[0], native), (captures[0], exact), (captures[1], native))
    if not all(capture.select(role="gradient", run=run, step=0) for capture, run in needed):
        return
    pairs = [p for p in Steps(context, *captures, _NATIVE, "train").gradients(0) if _is_measured(captures[0], p, native)]
    far, own = together(pairs)
    limit = LIMIT * max(own, LEAST)
    if not far > limit:
        return
    nearest = math.inf if context.settings.strict else _nearest(context, captures[0])
    if nearest <= limit:
        result.excuse(
            f"native gradients in train mode are {far:.2g} apart, and {nearest:.2g} where the candidate's inputs are moved by rounding: "
            "a value lies at a kink (of a ReLU, an absolute value, a maximum), and either side of it is right"
        )
        return
    jump = 0.0 if context.settings.strict else _jump(context, captures)
    if far <= jump:
        result.verdict = UNDERPOWERED
        result.warnings.append(
            f"native gradients in train mode are {far:.2g} apart, and the reference's own jump by {jump:.2g} where its inputs are moved by "
            "rounding: many values lie at kinks, and a lower precision in the candidate's backward pass would not show beside them"
        )
        return
    worst = max(pairs, key=_error)
    worst.key, worst.verdict, worst.judged = f"{worst.key} (native)", DIVERGED, True
    result.pairs.append(worst)
    result.verdict = DIVERGED
    result.notes.append(
        f"in float64 both sides agree; as they are, the candidate's gradients together are {far:.2g} away from the reference's, whose own "
        f"rounding is {own:.2g}: a lower precision in the backward pass alone?"
    )


def _nearest(context: Context, reference: Capture) -> float:
    """How near the candidate's native gradients get to exact ones, inputs moved by rounding.

    The nearest of some runs. Where a value lies at a kink, one of them passes it on the other side.
    What computes in a lower precision is as far away in all of them.
    """
    moved = _recorded_moved(context, context.candidate)
    if moved is None:
        return math.inf
    nearest = math.inf
    for run in MOVED:
        if not moved.select(role="gradient", run=f"{run}:train", step=0):
            continue
        method = Method("native", DOUBLE, run, (NATIVE,), LIMIT)
        pairs = Steps(context, reference, moved, method, "train").gradients(0)
        if pairs:
            measured = [p for p in pairs if _is_measured(reference, p, f"{NATIVE}:train")]
            nearest = min(nearest, together(measured)[0])
    return nearest


def _jump(context: Context, captures: tuple[Capture, Capture]) -> float:
    """How far native gradients of the reference jump where its inputs are moved by rounding."""
    moved = _recorded_moved(context, context.reference)
    if moved is None:
        return 0.0
    done = [run for run in MOVED if moved.select(role="gradient", run=f"{run}:train", step=0)]
    exact = _gradients(captures[0], DOUBLE)
    return max((_distance(exact, _gradients(moved, run)) for run in done), default=0.0)


def _gradients(capture: Capture, run: str) -> dict[str, Array]:
    """The gradients of a side's first step in train mode."""
    return {r.name: np.asarray(capture.value(r).array, np.float64) for r in capture.select(role="gradient", run=f"{run}:train", step=0)}


def _distance(exact: dict[str, Array], moved: dict[str, Array]) -> float:
    """How far all gradients together are from the exact ones; 0 where that is no number."""
    both = [(value, moved[name]) for name, value in exact.items() if name in moved]
    size = _length(float(np.linalg.norm(one)) for one, _ in both)
    far = _length(float(np.linalg.norm(two - one)) for one, two in both)
    if not size > 0 or not math.isfinite(far):
        return 0.0
    return far / size


def _recorded_moved(context: Context, recorder: Any) -> Capture | None:
    """A side's native backward passes with inputs moved by rounding.

    None where it fails: then the runs that were judged tell all that is known.
    """
    values = {n: c for n, c in (("inputs", context.inputs), ("labels", context.labels)) if c is not None}
    order = Backward(list(MOVED), ["train"], 0, context.settings.pace.accumulate)
    try:
        found: Capture = recorder.record("backward-moved", order, values)
    except WorkerFailed:
        return None
    return found


def together(pairs: list[Pair]) -> tuple[float, float]:
    """How far all values of some pairs together are apart, and the reference's own rounding.

    Both are relative, and 0 where the values have no size. An error that is not finite is infinite for all.
    """
    size = _length(_size(p) for p in pairs)
    own = _length(_noise(p) for p in pairs) / size if size > 0 else 0.0
    if not math.isfinite(own):
        own = 0.0
    if any(pair.error is not None and not math.isfinite(pair.error) for pair in pairs):
        return math.inf, own
    if not size > 0 or not math.isfinite(size):
        return 0.0, 0.0
    return _length(_error(p) for p in pairs) / size, own


def _is_measured(reference: Capture, pair: Pair, run: str) -> bool:
    """Whether a gradient has noise and an error, which is finite where the reference's own is."""
    if pair.noise is None or pair.error is None:
        return False
    return math.isfinite(pair.error) or _is_finite(reference, pair, run)


def _length(sizes: Iterable[float]) -> float:
    """The root of a sum of squares."""
    return math.sqrt(sum(size**2 for size in sizes))


def _error(pair: Pair) -> float:
    """The size of a pair's error; infinite where it is not finite, whatever the values."""
    error = pair.error or 0.0
    return error * _size(pair) if math.isfinite(error) else math.inf


def _noise(pair: Pair) -> float:
    """The size of the reference's own rounding."""
    return 0.0 if pair.noise is None else pair.noise.value * _size(pair)


def _is_finite(reference: Capture, pair: Pair, run: str) -> bool:
    """Whether the reference's own native gradient is finite.

    Where it overflows itself, the candidate's tells nothing.
    """
    name = pair.reference.name if pair.reference is not None else ""
    known = reference.select(role="gradient", run=run, step=0, name=name)
    return all(bool(np.isfinite(np.asarray(reference.array(record), np.float64)).all()) for record in known)


def _size(pair: Pair) -> float:
    """The norm of the reference's gradient; 0 where nothing was measured."""
    return 0.0 if pair.stats is None else pair.stats.rms_reference * math.sqrt(pair.stats.count)
