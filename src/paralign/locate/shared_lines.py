"""A line that several regions share.

One fault there explains them all, one beside it only the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.locate import guessed_places
from paralign.locate.described import divergence, merged
from paralign.locate.lines.kinds import REGION_RULES
from paralign.locate.lines.rule import ablated
from paralign.locate.optimizer.setting_lines import code_at
from paralign.model import LineProposal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from paralign.locate.laboratory.watched import Watched
    from paralign.locate.types import Guilt
    from paralign.model import Divergence

#: the id of the rule in ``report.json``
SHARED = "region-shared"

#: rules that name a line of a region by its looks alone
_GUESSING = frozenset(rule.id for rule in REGION_RULES)


def divergences(found: Iterable[Guilt], watched: Watched | None = None) -> list[Divergence]:
    """Faults as they are reported, those of the same kind at the same line as one."""
    guilts = list(found)
    told = [divergence(guilt, watched) for guilt in guilts]
    regions = [{o.source for o in guilt.trial.region if o.source} for guilt in guilts]
    prefer_shared(told, regions)
    if watched is not None and watched.context.guessed:
        guessed_places.doubt(told, guilts, watched.context.plan)
    return merged(told)


def prefer_shared(told: list[Divergence], regions: list[set[str]]) -> None:
    """Name a later region's line for an earlier one that has it too, if not inversely.

    Args:
        told: the divergences, in order.
        regions: the lines of each one's operations.
    """
    if SHARED in ablated():
        return
    lines = [_guessed_line(each) for each in told]
    for number, each in enumerate(told):
        point, own = each.candidate, lines[number]
        if point is None or own is None:
            continue
        later = zip(lines[number + 1 :], regions[number + 1 :], strict=True)
        shared = {line for line, held in later if line in regions[number] and own not in held} - {own}
        if len(shared) != 1:
            continue
        line = shared.pop()
        point.lines = [own, *(before for before in point.lines if before != line)]
        point.source, point.code = line, code_at(line)
        each.rule = SHARED
        each.proposals.insert(0, LineProposal(SHARED, line))


def _guessed_line(divergence: Divergence) -> str | None:
    """The candidate's line that a rule names by its looks alone; None of other rules."""
    if divergence.candidate is None or divergence.rule not in _GUESSING:
        return None
    return divergence.candidate.source
