"""Operations of PyTorch that the candidate's framework spells otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.adapters.profile import profile_of

if TYPE_CHECKING:
    from paralign.model import Divergence, StageResult


def say(result: StageResult, framework: str) -> None:
    """Add to each divergence what the reference's operation is called in a framework."""
    for divergence in {id(d): d for d in result.divergences}.values():
        _say(divergence, framework)


def _say(divergence: Divergence, framework: str) -> None:
    point = divergence.reference
    said = None if point is None else profile_of(framework).equivalent(point.op)
    if said is not None and said not in divergence.notes:
        divergence.notes.append(said)
