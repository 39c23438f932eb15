"""Where layers were constructed and helpers called: which of the lines that led to an operation decided on it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
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


@dataclass(frozen=True)
class Passage:
    """An operation at fault, and lines that led to it: which of them decided on it is told by right operations that passed them too.

    Args:
        judgement: of the run as it is.
        guilt: the fault.
        operation: at fault.
        lines: those that led to it, the innermost first; of its layer's construction or of its call.
        by_construction: whether they are those of its layer's construction.
        alike: whether right operations with the same arguments exonerate a line as well.
        twin: what the reference has in place of the operation.
    """

    judgement: Judgement
    guilt: Guilt
    operation: Operation
    lines: tuple[str, ...]
    by_construction: bool = False
    alike: bool = False
    twin: Operation | None = None

    @cached_property
    def due(self) -> Operation | None:
        """The reference's operation in its place."""
        like = self.twin is not None and self.twin.kind == self.operation.kind
        return self.twin if like else computing(self.guilt.trial.due.maker)

    @cached_property
    def counterpart(self) -> Operation | None:
        """The reference's operation in its place, if it is of the same kind."""
        return self.due if self.due is not None and self.due.kind == self.operation.kind else None

    @cached_property
    def guilty(self) -> set[int]:
        """The numbers of the operations at fault."""
        return {o.number for o in (self.operation, *self.guilt.repeats)} | self.guilt.replaced

    @cached_property
    def right(self) -> list[tuple[Graph, Operation]]:
        """Right operations of the run as it is, and of the mended one."""
        runs = dict.fromkeys((self.judgement, self.guilt.mended or self.judgement))
        return [
            (run.candidate, o)
            for run in runs
            for o in run.candidate.operations
            if o.number not in self.guilty and _is_right(run, o, self.guilt.replaced)
        ]

    @cached_property
    def others(self) -> list[tuple[Graph, Operation]]:
        """Right operations of the same kind with other arguments, and of the kind that is due here."""
        kind, arguments = self.operation.kind, self.operation.arguments
        found = [(g, o) for g, o in self.right if o.kind == kind and (self.alike or o.arguments != arguments)]
        if self.due is not None and self.due.kind != kind:
            found += [(g, o) for g, o in self.right if o.kind == self.due.kind]
        return found

    @cached_property
    def unshared(self) -> str:
        """The innermost line that no other right operation has passed, by the same lines within.

        Where one has, the arguments come from further out: a helper that is used with right and with wrong ones. Of lines that are all
        the same it is the one that calls such a helper more than once.
        """
        ways = {self._lines(g, o) for g, o in self.others}
        found = (line for depth, line in enumerate(self.lines, 1) if all(way[:depth] != self.lines[:depth] for way in ways))
        return next(found, None) or _calling(self.lines, ways)

    @cached_property
    def innermost(self) -> str:
        """The line to look at: ``unshared``, or further out where the reference's operation went through a helper that others use."""
        if self.unshared != self.lines[0] or self.counterpart is None or self.alike:
            return self.unshared
        depth = _shared_in_reference(self.judgement.reference, self.counterpart, by_construction=self.by_construction)
        if not 0 < depth < len(self.lines):
            return self.unshared
        passed = [self._lines(g, o) for g, o in self.right if o.kind == self.operation.kind]
        parting = [way for way in passed if way[:depth] == self.lines[:depth] and way[: depth + 1] != self.lines[: depth + 1]]
        return self.lines[depth] if parting else self.unshared

    def _lines(self, graph: Graph, operation: Operation) -> tuple[str, ...]:
        return _lines_of(graph, operation, by_construction=self.by_construction)

    def argument(self) -> str | None:
        """The call that gives the layer the argument that differs, where this line is right elsewhere or constructs one layer only."""
        names = self._differing()
        return argument_line(self.lines, names) if names and self._is_fine_elsewhere() else None

    def bound(self) -> str | None:
        """Where the argument that differs was bound to what constructs the layer, if all layers of this line have it."""
        names = self._differing()
        return None if not names or self._is_fine_elsewhere() else bound_line(self.lines, names)

    def _differing(self) -> set[str]:
        """The arguments that differ from the reference's, if the innermost line is the one that constructs the layer."""
        if self.counterpart is None or self.innermost != self.lines[0]:
            return set()
        return differing(self.operation.arguments, self.counterpart.arguments)

    def _is_fine_elsewhere(self) -> bool:
        graph = self.judgement.candidate
        alike = {o.module for o in graph.operations if constructed(graph, o.module)[:1] == self.lines[:1]}
        fine = any(o.kind == self.operation.kind and constructed(g, o.module)[:1] == self.lines[:1] for g, o in self.right)
        return fine or len(alike) == 1

    def table(self) -> str | None:
        """The line of the table that a loop takes the wrong argument from; None where the call in the loop may be wrong.

        The call is right where other rounds make of it what is due here, and the wrong rounds follow one another, as those of a row do.
        """
        due = self.counterpart
        names = differing(self.operation.arguments, due.arguments) if due is not None else set()
        told = table_line(self.lines, names) if names else None
        if due is None or told is None:
            return None
        depth = self.lines.index(told[0]) + 1
        same = [(g, o) for g, o in self.right if o.kind == self.operation.kind]
        rounds = {o.number: o for g, o in same if constructed(g, o.module)[:depth] == self.lines[:depth]}
        if not any(not names & differing(o.arguments, due.arguments) for o in rounds.values()):
            return None
        return None if any(min(self.guilty) < number < max(self.guilty) for number in rounds) else told[1]

    def own_setting(self) -> str | None:
        """Where the user's module of the operation was constructed, if its line reads a setting and right operations are of others."""
        passing = [o for _, o in self.others if o.source == self.operation.source]
        if self.innermost != self.unshared:
            return None
        return _own_setting(self.judgement.candidate, self.operation, passing) if passing else None


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
