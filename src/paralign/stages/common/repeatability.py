"""How far a side is from itself.

What two of its own runs do not agree in, no comparison with the other side can see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.dtypes import EPS
from paralign.model import ALIGNED, DIVERGED, UNDERPOWERED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paralign.model import Pair, StageResult

#: a relative distance between two equal runs that sums in another order explain, and the one from which a wrong constant (an epsilon, a
#: slope) would not show
REPEATED, HIDING = 1e-5, 1e-3

#: a relative distance between two equal runs that is worth a note: float32 rounds to 6e-8, and sums of float64 in another order to 1e-15
SAID = 1e-9

#: a relative distance between two equal runs that native rounding does not make: it is said in the shortest form too
ALOUD = EPS["float32"]

#: two sides that draw for themselves are apart by as much as either is from itself, times this at most (two independent draws: √2)
APART = 5.0

#: two sides that draw alike are from themselves by distances within this factor; one that sums in another order and one that draws are not
LIKE = 100.0


def say_gradients(result: StageResult, pairs: Sequence[Pair], far: tuple[float, float], what: str) -> None:
    """Say that gradients change with the seed alone.

    Where that hides what a wrong port would do, the test is too weak.

    Args:
        result: of the stage.
        pairs: what was compared of these gradients and of what follows from them.
        far: the relative distance between the gradients of two seeds, of the reference and of the candidate.
        what: which gradients.
    """
    both = min(far) > REPEATED
    if both and all(_drew_the_same(pair, far) for pair in pairs if pair.judged):
        result.notes.append(
            f"the {what} are random: with another seed they differ by {max(far):.2g}; both sides drew the same numbers here"
        )
        return
    for side, distance in zip(("reference", "candidate"), far, strict=True):
        if SAID < distance <= REPEATED:
            said = (
                f"the {side}'s {what} do not repeat themselves to the last digits: with another seed they differ by {distance:.2g}. "
                "Nothing smaller can be seen"
            )
            say_distance(result, said, distance)
        elif distance > REPEATED:
            result.doubt(
                f"the {side}'s {what} are random: with another seed they differ by {distance:.2g}. "
                "Nothing smaller can be seen: switch off what draws in its loss or its backward pass"
            )
    if not hides(far):
        return
    for pair in pairs:
        if pair.judged and (pair.verdict != DIVERGED or explains(far, pair.error)):
            pair.verdict = UNDERPOWERED


def say_distance(result: StageResult, said: str, far: float) -> None:
    """Note how far a side is from itself.

    What rounding does not make is said in the shortest form of a report too.
    """
    if far > ALOUD:
        result.excuse(said)
    else:
        result.notes.append(said)


def explains(far: tuple[float, float], error: float | None) -> bool:
    """Whether two sides, alike not repeatable, are no further apart than from themselves."""
    least, most = min(far), max(far)
    if error is None or not least > REPEATED or not most <= LIKE * least:
        return False
    return error <= APART * most


def hides(far: tuple[float, float]) -> bool:
    """Whether what is random on a side is large enough to hide a fault."""
    return max(far) >= HIDING


def _drew_the_same(pair: Pair, far: tuple[float, float]) -> bool:
    """Whether both sides agree far better than seeds do: they drew the same numbers."""
    if pair.verdict != ALIGNED:
        return False
    return (pair.error or 0.0) <= HIDING * max(far)
