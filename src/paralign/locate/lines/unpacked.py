"""Parts of one tensor that get each other's names.

``gate, value = split(x)`` for ``value, gate``: what takes them is written as in the reference; where they are named is the line to be
edited. The reference names the same parts of the same tensor with the same words, in another order.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from paralign.locate.runs.traverse import CONTEXT, computing, makers, way_to
from paralign.locate.source.statements import parsed_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from paralign.locate.runs.dataflow import Operation
    from paralign.locate.runs.judgement import Judgement
    from paralign.locate.suspects.propose import Trial

#: kinds of operations that give parts of a tensor
PARTING = frozenset({"split", "slice"})


def of_region(judgement: Judgement, trial: Trial, operation: Operation) -> str | None:
    """As :func:`line`, of the operations of a trial and one of them that is to be looked at."""
    region = [*trial.region, operation]
    return line(judgement, region, way_to(judgement, trial.due, len(region) + CONTEXT))


def line(judgement: Judgement, region: Iterable[Operation], reference: Iterable[Operation]) -> str | None:
    """The candidate's line that names parts in another order than the reference's does.

    Args:
        judgement: of the run as it is.
        region: the candidate's operations that make something else of right values.
        reference: the reference's on the way to what is due.
    """
    theirs: dict[frozenset[str], set[tuple[str, ...]]] = {}
    for operation in _parting(reference):
        names = _named_at(operation)
        if names:
            theirs.setdefault(frozenset(names), set()).add(names)
    for operation in _parting(region):
        names = _named_at(operation)
        orders = theirs.get(frozenset(names), set())
        if names and orders and names not in orders and judgement.takes_right(operation):
            return operation.stack[0]
    return None


def _parting(operations: Iterable[Operation]) -> list[Operation]:
    """What gives parts to some operations, near their inputs."""
    found: dict[Operation, None] = {}
    for operation in operations:
        for maker in (operation, *makers(operation.inputs), *filter(None, map(computing, makers(operation.inputs)))):
            if maker.kind in PARTING and maker.stack:
                found[maker] = None
    return sorted(found, key=lambda each: each.order)


def _named_at(operation: Operation) -> tuple[str, ...]:
    """The plain names that the operation's line unpacks into; empty for another line."""
    known = parsed_line(operation.stack[0])
    if known is None:
        return ()
    for node in ast.walk(known.tree):
        if isinstance(node, ast.Assign) and node.lineno <= known.place.line <= (node.end_lineno or node.lineno):
            target = node.targets[0]
            if len(node.targets) == 1 and isinstance(target, (ast.Tuple, ast.List)):
                names = [each.id for each in target.elts if isinstance(each, ast.Name)]
                if len(names) == len(target.elts) == len(set(names)) > 1:
                    return tuple(names)
    return ()
