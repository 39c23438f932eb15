"""A plan's renamings and routes as rules."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from paralign.weights.rules import Route, Rules, learn

if TYPE_CHECKING:
    from paralign.weights.plan import Plan


def table(plan: Plan) -> Rules:
    """The rules behind a plan's moves: renamings of modules (or of tensors that stand alone), and ways of parts."""
    modules: dict[tuple[str, str], None] = {}
    ways: dict[tuple[str | None, str | None], list[tuple[str, str]]] = defaultdict(list)
    for move in plan.moves:
        if move.source is None or move.target is None or move.reference is None or move.candidate is None or move.how == "shared":
            continue
        if move.whole and (move.source.leaf == move.target.leaf or move.how == "name"):
            modules[move.source.owner, move.target.owner] = None
        elif move.whole:
            modules[move.reference.name, move.candidate.name] = None
        else:
            ways[move.transform, move.into].append((move.reference.name, move.candidate.name))
    routes = [
        Route(r.reference, r.candidate, transform, into, r.count)
        for (transform, into), pairs in ways.items()
        for r in learn(pairs, shorten=False) + _same(pairs)
    ]
    return Rules(tuple(learn(modules)), tuple(routes))


def _same(pairs: list[tuple[str, str]]) -> list[Route]:
    return [Route(one, other, count=1) for one, other in pairs if one == other]
