"""Where layers were constructed and helpers called: which of the lines that led to an operation decided on it."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from paralign.adapters._kinds import MOVES
from paralign.locate.runs.traverse import computing, computing_users, made
from paralign.locate.source.bindings import Code
from paralign.locate.source.call_arguments import argument_line, bound_line, differing, table_line
from paralign.locate.source.statements import calls

if TYPE_CHECKING:
    from paralign.locate.runs.dataflow import Graph, Operation
    from paralign.locate.runs.judgement import Judgement
    from paralign.locate.types import Guilt


#: layers that compute nothing themselves
CONTAINERS = frozenset({"Sequential", "ModuleList", "LayerList", "ModuleDict", "LayerDict"})


def constructed(graph: Graph, module: str) -> tuple[str, ...]:
    """The lines that constructed a module, where it is a layer of the framework; those of what it is a copy inside of, else none."""
    if module not in graph.kinds:
        return ()
    if not module and graph.kinds[module] in CONTAINERS:  # what runs in no layer, as a loss does, runs not in the container either
        return ()
    path = module
    while path:
        if path in graph.built:
            return tuple(graph.built[path])
        path = path.rpartition(".")[0]
        if path and path not in graph.kinds and path in graph.built:
            return ()
    return tuple(graph.built.get("", ()))


def own_line(graph: Graph, operation: Operation) -> str | None:
    """The line that an operation is known by: where its layer was constructed, or where it is called."""
    lines = constructed(graph, operation.module)
    return lines[0] if lines else operation.source


def reference_line(graph: Graph, operation: Operation | None, *, built: bool) -> str | None:
    """The reference's line beside: where its layer was constructed, or where the operation is called."""
    if operation is None:
        return None
    return own_line(graph, operation) if built else operation.source


def is_container_line(graph: Graph, operation: Operation) -> bool:
    """Whether the innermost line of a layer's operation runs several layers at once, as that of a Sequential does."""
    if operation.module not in graph.kinds or operation.source is None:
        return operation.module in graph.kinds
    modules = {o.module for o in graph.operations if o.source == operation.source and o.stack == operation.stack}
    return len(modules) > 1 and any(m != operation.module and m.rpartition(".")[0] == operation.module.rpartition(".")[0] for m in modules)


def not_exonerated(
    judgement: Judgement,
    guilt: Guilt,
    operation: Operation,
    lines: tuple[str, ...],
    *,
    by_construction: bool,
    alike: bool = False,
    twin: Operation | None = None,
) -> str:
    """The innermost line that no right operation of the same kind, but with other arguments (``alike``: or with any), has passed as well.

    Where one has, by the same lines within, the arguments come from further out: a helper that is used with right and with wrong ones.
    So they do where what the reference has in place of it (``twin``, or what made the value that is due) went through a helper that
    others go through with other arguments. Of lines that are all the same it is the one that calls such a helper more than once. What
    hands an argument on, but once or rightly elsewhere, is told by its call. Where a loop takes the arguments from a table, and other
    rounds are right, it is the table's.
    """
    guilty = {o.number for o in (operation, *guilt.repeats)} | guilt.replaced
    due = twin if twin is not None and twin.kind == operation.kind else computing(guilt.trial.due.maker)
    right = [
        (each.candidate, o)
        for each in dict.fromkeys((judgement, guilt.mended or judgement))
        for o in each.candidate.operations
        if o.number not in guilty and _is_right(each, o, guilt.replaced)
    ]
    if by_construction and (table := _table(operation, due, lines, right, guilty)) is not None:
        return table
    others = [(g, o) for g, o in right if o.kind == operation.kind and (alike or o.arguments != operation.arguments)]
    if due is not None and due.kind != operation.kind:  # there it does what is due here
        others += [(g, o) for g, o in right if o.kind == due.kind]
    ways = {_lines_of(graph, o, by_construction=by_construction) for graph, o in others}
    found = next((line for depth, line in enumerate(lines, 1) if all(way[:depth] != lines[:depth] for way in ways)), _calling(lines, ways))
    if found == lines[0] and due is not None and due.kind == operation.kind and not alike:
        depth = _shared_in_reference(judgement.reference, due, by_construction=by_construction)
        passed = {_lines_of(g, o, by_construction=by_construction) for g, o in right if o.kind == operation.kind}
        if 0 < depth < len(lines) and any(way[:depth] == lines[:depth] and way[: depth + 1] != lines[: depth + 1] for way in passed):
            return lines[depth]
    alike_built = {o.module for o in judgement.candidate.operations if constructed(judgement.candidate, o.module)[:1] == lines[:1]}
    fine = any(o.kind == operation.kind and constructed(g, o.module)[:1] == lines[:1] for g, o in right)
    if by_construction and found == lines[0] and due is not None and due.kind == operation.kind and (fine or len(alike_built) == 1):
        return argument_line(lines, differing(operation.arguments, due.arguments)) or found
    if by_construction and found == lines[0] and due is not None and due.kind == operation.kind:
        return bound_line(lines, differing(operation.arguments, due.arguments)) or found
    passing = [o for _, o in others if o.source == operation.source]
    kept = _own_setting(judgement.candidate, operation, passing) if passing and not (by_construction or alike) else None
    return kept or found


def _table(
    operation: Operation, due: Operation | None, lines: tuple[str, ...], right: list[tuple[Graph, Operation]], guilty: set[int]
) -> str | None:
    """The line of the table that a loop takes the wrong argument from; None where there is none, or the call in the loop may be wrong.

    The call is right where other rounds make of it what is due here, and the wrong rounds follow one another, as those of a row do.
    """
    names = differing(operation.arguments, due.arguments) if due is not None and due.kind == operation.kind else set()
    told = table_line(lines, names) if names else None
    if due is None or told is None:
        return None
    depth = lines.index(told[0]) + 1
    rounds = {o.number: o for g, o in right if o.kind == operation.kind and constructed(g, o.module)[:depth] == lines[:depth]}
    if not any(not names & differing(o.arguments, due.arguments) for o in rounds.values()):
        return None
    return None if any(min(guilty) < number < max(guilty) for number in rounds) else told[1]


def _own_setting(graph: Graph, operation: Operation, others: list[Operation]) -> str | None:
    """Where one's own module of an operation was constructed, if its line reads a setting of it, and right ones there are of others."""
    path = operation.module
    if path not in graph.built or path in graph.kinds or any(o.module == path for o in others):
        return None
    names = [v.record.name for v in graph.values.values() if v.record.role in ("parameter", "buffer")]
    held = {name[len(path) + 1 :].partition(".")[0] for name in (*names, *graph.built) if name.startswith(f"{path}.")}
    code = Code(operation.source)
    settings = [a for a in code.attributes if a not in held and code.setting(a) is not None]
    return graph.built[path][0] if settings else None


def _is_right(judgement: Judgement, operation: Operation, replaced: set[int]) -> bool:
    """Whether an operation makes of right values right ones, or what others make right ones of at once: a convolution without its bias."""
    wrong = [v for v in made(operation) if not judgement.is_right(v)]
    users = [user for each in wrong for user in computing_users(each) if user.kind not in MOVES]
    after = [v for user in users for v in made(user)]
    fine = all(judgement.is_right(v) for v in (*operation.inputs, *after)) and all(user.number not in replaced for user in users)
    return fine and (not wrong or bool(after))


def _calling(lines: tuple[str, ...], ways: set[tuple[str, ...]]) -> str:
    """The innermost line that calls what holds the line within it several times, if a right operation came that way too; else the first."""
    several = (outer for inner, outer in pairwise(lines) if calls(outer, inner) > 1) if lines in ways else ()
    return next(iter(several), lines[0])


def _lines_of(graph: Graph, operation: Operation, *, by_construction: bool) -> tuple[str, ...]:
    return constructed(graph, operation.module) if by_construction else operation.stack


def _shared_in_reference(graph: Graph, due: Operation, *, by_construction: bool) -> int:
    """How many of an operation's innermost lines others of its kind have in common with it that have other arguments."""
    own = _lines_of(graph, due, by_construction=by_construction)
    found = 0
    for other in graph.operations:
        if other.kind == due.kind and other.arguments != due.arguments:
            way = _lines_of(graph, other, by_construction=by_construction)
            found = max(found, next((n for n, (a, b) in enumerate(zip(own, way, strict=False)) if a != b), min(len(own), len(way))))
    return found
