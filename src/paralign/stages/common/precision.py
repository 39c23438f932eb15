"""What the sides compute in as they are.

A lower precision that the port sets itself does not show where all runs in float64.

The candidate's native outputs are held against the reference's float64 run, in units of the reference's own native noise. The element types
of single operations are compared by ``locate/suspects/element_types.py``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from paralign.dtypes import is_floating
from paralign.model import DIVERGED, UNDERPOWERED, Coverage, Tolerance
from paralign.stages.common.judging import FLOAT64, PARTLY, Method, paired, settle
from paralign.worker.sides.session import DOUBLE, NATIVE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paralign.capture import Capture
    from paralign.model import Pair, Record, StageResult

#: native errors above the second are no kernel's: bfloat16, float16 and TF32 are from a thousand times the noise of float32 on; above the
#: first they are told (correct ports measured 0.9 to 3.1)
TOLD, LIMIT = 10.0, 100.0

#: the native noise that is granted at least where the reference alone computes in a higher precision than it is given: its own says nothing
#: of float32, whose kernels are up to this far apart
ROUNDED = 1e-6

#: the native noise that a value of few elements has at least: by chance it may show none
LEAST = 1e-5

_NATIVE = Method("native", DOUBLE, NATIVE, (NATIVE,), LIMIT)

#: how keys of pairs end that are of native runs, where others are of float64
NATIVE_KEY = " (native)"


def judge(
    result: StageResult,
    captures: tuple[Capture, Capture],
    points: Sequence[tuple[Record | None, Record | None, str]],
    method: Method,
    tolerance: Tolerance,
    *,
    alone: bool = False,
    finer: bool = False,
) -> None:
    """Judge the candidate's native values too, where float64 runs were compared.

    What only they show diverges.

    Args:
        result: of the stage, whose float64 values were judged.
        captures: of both sides.
        points: the reference's float64 records and the candidate's native ones.
        method: by which the stage was judged.
        tolerance: the user's; one that replaces error ÷ noise leaves nothing to be judged here.
        alone: whether the float64 values tell nothing of the native ones, because a side takes another way there.
        finer: whether the reference alone computes natively in a higher precision than it is given.
    """
    in_float64 = method in (FLOAT64, PARTLY)
    if not in_float64 or result.verdict == DIVERGED or tolerance.absolute:
        return
    limit, least = (TOLD, 0.0) if alone else (TOLD, ROUNDED) if finer else (LIMIT, LEAST)
    native = replace(_NATIVE, limit=max(limit, tolerance.ratio or 0.0))
    both = [ends for ends in points if None not in ends]
    pairs = [p for p in paired(*captures, both, native, Tolerance()) if p.noise is not None]
    settle(pairs, native, Tolerance(), least=least)
    wrong, loud = [], []
    for pair in pairs:
        pair.key = f"{pair.key}{NATIVE_KEY}"
        pair.judged = pair.verdict != UNDERPOWERED
        if pair.verdict == DIVERGED:
            wrong.append(pair)
        elif pair.judged and (pair.ratio or 0.0) > TOLD:
            loud.append(pair)
    result.pairs += wrong
    if wrong:
        result.verdict = DIVERGED
        result.notes.append(
            "in float64 both sides agree; as they are, the candidate is further from the reference than kernels of the same precision are: "
            f"{_told(wrong[0])}"
        )
    elif loud:
        result.warnings.append(f"as they are, without float64, the candidate is less precise than the reference: {_told(loud[0])}")


def say_types(result: StageResult, points: Sequence[tuple[Record | None, Record | None, str]]) -> None:
    """Say in the row how many native values have another floating type in the candidate."""
    found: Counter[tuple[str, str]] = Counter()
    for one, other, _ in points:
        if one is None or other is None or one.dtype == other.dtype:
            continue
        if is_floating(one.dtype) and is_floating(other.dtype):
            found[one.dtype, other.dtype] += 1
    for (due, own), count in found.items():
        result.coverage.append(Coverage(f"values in {own} for {due}", count))


def _told(pair: Pair) -> str:
    noise = pair.noise_value
    return f"{pair.key} is {pair.error or 0.0:.2g} away, the reference's own rounding is {noise:.2g}"
