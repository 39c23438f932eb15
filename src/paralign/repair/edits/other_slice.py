"""Another part of the same axis: ``x[2:]`` or ``x[::2]`` for ``x[:2]``.

The numbers of a slice in other places.
"""

from __future__ import annotations

import ast
from itertools import permutations
from typing import TYPE_CHECKING

from paralign.repair.edits.sentences import tried
from paralign.repair.proposals import is_number, literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paralign.repair.proposals import Proposal, Site

ID = "slice"

#: beside other proposals: there are few of a slice
WEIGHT = 0.8


def propose(site: Site) -> Iterator[Proposal]:
    """Each slice of the statement with what it is made of in the other places."""
    for node in site.nodes:
        if not isinstance(node, ast.Slice):
            continue
        parts = [site.text(each) if each is not None else "" for each in (node.lower, node.upper, node.step)]
        own = tuple(parts)
        for other in dict.fromkeys(permutations(parts)):
            if other == own or not _is_possible(site, node, other[2]):
                continue
            text = f"{other[0]}:{other[1]}" + (f":{other[2]}" if other[2] else "")
            cause, fix = tried(site.text(node), text)
            yield site.replaced(node, text, ID, (cause, fix), WEIGHT)


def _is_possible(site: Site, node: ast.Slice, step: str) -> bool:
    """Whether a part of a slice can be its step: a whole number from 2 on, or what was one."""
    if not step or (node.step is not None and step == site.text(node.step)):
        return True
    values = [literal(each) for each in (node.lower, node.upper) if each is not None and site.text(each) == step]
    return any(isinstance(value, int) and is_number(value) and value > 1 for value in values)
