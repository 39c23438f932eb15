"""Parameters that neither side trains in effect.

They are frozen in different ways, or reached by nothing in the batch.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from paralign.model import ALIGNED, DIVERGED, Unjudged

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from paralign.model import Pair

#: what is said of each
SAID = {
    Unjudged.FROZEN: "frozen on both sides, each in its own way: no step changes it",
    Unjudged.UNREACHED: "inherent: nothing of the batch reached it (an expert without a token, say): one side has no gradient for it, the "
    "other zeros, which weight decay and momentum go on with",
}


def excuse(pairs: Sequence[Pair], *, strict: bool) -> None:
    """Leave out gradients of what neither side changes, and updates without a gradient.

    Args:
        pairs: of all steps, judged.
        strict: whether inherent differences count.
    """
    gradients: dict[str, list[Pair]] = defaultdict(list)
    changes: dict[str, Pair] = {}
    for pair in pairs:
        record = pair.reference
        if record is None:
            continue
        if record.role == "gradient":
            gradients[record.name].append(pair)
        elif record.role == "parameter" and pair.stats is not None:
            changes[record.name] = pair
    if not any(p.stats is not None and p.stats.rms_reference > 0 for p in changes.values()):
        return
    for name, change in changes.items():
        if change.stats is not None and change.stats.rms_reference == change.stats.rms_candidate == 0.0:
            _leave_out((p for p in gradients[name] if _one_sided(p)), Unjudged.FROZEN)
        elif not strict and _unreached(gradients[name]):
            _leave_out([change], Unjudged.UNREACHED)


def _one_sided(pair: Pair) -> bool:
    """Whether one side alone has a gradient there."""
    if pair.reference is None or pair.candidate is None:
        return False
    return (pair.reference.dtype == "none") != (pair.candidate.dtype == "none")


def _unreached(gradients: Sequence[Pair]) -> bool:
    """Whether gradients are zeros on one side where the other has none, and else equal."""
    if not any(map(_one_sided, gradients)):
        return False
    return all(p.verdict == ALIGNED for p in gradients)


def _leave_out(pairs: Iterable[Pair], why: Unjudged) -> None:
    for pair in pairs:
        if pair.verdict == DIVERGED:
            pair.leave_out(why, SAID[why])
