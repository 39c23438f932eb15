"""Two statements in exchanged places that draw from one source.

Which one draws first decides what both get.
"""

from __future__ import annotations

import ast
from itertools import pairwise
from typing import TYPE_CHECKING

from paralign.repair.edited_source import root_of
from paralign.repair.edits.sentences import exchanged, turned
from paralign.repair.proposals import Proposal, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paralign.repair.edited_source import Source
    from paralign.repair.proposals import Site

ID = "order-of-draws"

#: beside other proposals: nothing else sees that two statements draw in another order, and there are two neighbours
WEIGHT = 1.3

#: what modules are called whose functions draw from a source that all share
_SHARED = "random"

#: names of functions of frameworks that draw from it
_DRAWING = frozenset(
    {"rand", "randn", "randint", "randperm", "normal", "uniform", "bernoulli", "multinomial", "shuffle", "permutation", "choice"}
)


def propose(site: Site) -> Iterator[Proposal]:
    """The named statement and each neighbour exchanged, where both draw from one source."""
    for node in ast.walk(site.function):
        for body in (getattr(node, part, None) for part in ("body", "orelse")):
            if not isinstance(body, list) or site.statement not in body:
                continue
            for one, other in pairwise(body):
                if site.statement in (one, other) and is_step(one) and is_step(other) and _sources(site, one) & _sources(site, other):
                    yield turned_steps(site.source, one, other, WEIGHT, ID)


def _sources(site: Site, statement: ast.stmt) -> set[str]:
    """What a statement draws from: a generator's name, or the source that all share."""
    found: set[str] = set()
    for node in ast.walk(statement):
        if not isinstance(node, ast.Call):
            continue
        root = root_of(node)
        if root in site.objects and isinstance(node.func, ast.Attribute):
            found.add(root)
        elif name_of(node.func) in _DRAWING and root in site.source.packages:
            package = site.source.packages[root]
            found.add(f"{_SHARED} of {package}")
    return found


def is_step(node: ast.stmt) -> bool:
    """Whether a statement binds or calls something."""
    is_text = isinstance(getattr(node, "value", None), ast.Constant)
    return isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Expr) and not is_text


def turned_steps(source: Source, one: ast.stmt, other: ast.stmt, weight: float, rule: str = "order", *, known: bool = False) -> Proposal:
    """The proposal to write two neighbours in the other order.

    Args:
        source: of both.
        one: the first.
        other: the second.
        weight: of the proposal.
        rule: of the proposal.
        known: whether the reference was seen to have them so.
    """
    (start, middle), (behind, end) = source.span(one), source.span(other)
    text = source.text[behind:end] + source.text[middle:behind] + source.text[start:middle]
    cause, fix = (turned if known else exchanged)(*(source.segment(each).splitlines()[0] for each in (one, other)))
    return Proposal(rule, source.edit(start, end, text), cause, fix, weight)
