"""Operations of PyTorch that the candidate's framework spells otherwise."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from paralign.adapters.profile import profile_of

if TYPE_CHECKING:
    from paralign.model import Divergence, StageResult


#: names that a line of code calls
_CALLED = re.compile(r"(\w+)\(")


def say(result: StageResult, framework: str) -> None:
    """Add to each divergence what a framework calls the reference's operation, and the line's."""
    for divergence in {id(d): d for d in result.divergences}.values():
        _say(divergence, framework)


def _say(divergence: Divergence, framework: str) -> None:
    profile, names = profile_of(framework), []
    if divergence.reference is not None:
        names.append(divergence.reference.op)
    if divergence.candidate is not None and divergence.candidate.code:
        names += _CALLED.findall(divergence.candidate.code)  # the line may call by PyTorch's name what is another function here
    for said in filter(None, map(profile.equivalent, names)):
        if said not in divergence.notes:
            divergence.notes.append(said)
