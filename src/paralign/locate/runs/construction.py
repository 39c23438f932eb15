"""Which of the lines that built a layer or called a helper decided on it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from paralign.adapters._kinds import MOVES
from paralign.locate.runs.traverse import begin_alike, computing, computing_users, made, makers
from paralign.locate.source.bindings import Code
from paralign.locate.source.call_arguments import argument_line, differing
from paralign.locate.source.statements import calls

if TYPE_CHECKING:
    from paralign.locate.runs.dataflow import Graph, Operation, Value
    from paralign.locate.runs.judgement import Judgement
    from paralign.locate.types import Guilt


#: layers that compute nothing themselves
CONTAINERS = frozenset({"Sequential", "ModuleList", "LayerList", "ModuleDict", "LayerDict"})


def constructed(graph: Graph, module: str) -> tuple[str, ...]:
    """The lines that constructed a layer of the framework, or what it is a copy inside of."""
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


#: beginnings of the names of layers -> what their kernels do, where it is called otherwise
_KERNELS = {
    "linear": "matmul",
    "bilinear": "matmul",
    "conv": "convolution",
    "maxpool": "maximumpool",
    "avgpool": "averagepool",
    "adaptiveavgpool": "adaptiveaveragepool",
    "adaptivemaxpool": "adaptivemaximumpool",
    "upsample": "interpolate",
    "multihead": "attention",
    "syncbatchnorm": "batchnorm",
    "alphadropout": "dropout",
    "zeropad": "pad",
    "relu6": "clip",
    "flatten": "view",
}


def construction(graph: Graph, operation: Operation) -> tuple[str, ...]:
    """The lines that constructed the layer of an operation.

    None of a step that the user's own pass of the layer takes beside its kernel, nor of what is done with its outputs, where the
    whole model is one layer.
    """
    if not operation.module and _is_after_all(graph, operation):
        return ()
    if operation.module in graph.rewritten and not _is_kernel(graph.kinds.get(operation.module, ""), operation):
        return ()
    return constructed(graph, operation.module)


def _is_after_all(graph: Graph, operation: Operation) -> bool:
    """Whether an operation comes after the model's pass, as those of a loss do."""
    makers_of_outputs = [value.maker.number for value in graph.outputs.values() if value.maker is not None]
    return bool(makers_of_outputs) and operation.number > max(makers_of_outputs)


def _is_kernel(layer: str, operation: Operation) -> bool:
    """Whether an operation is what a layer of the framework is there for."""
    word, name = layer.lower(), operation.kind.replace("_", "")
    if word.startswith(name):
        return True
    kernels = [kernel for begin, kernel in _KERNELS.items() if word.startswith(begin)]
    return name.startswith(tuple(kernels))


def own_line(graph: Graph, operation: Operation) -> str | None:
    """The line that an operation is known by: its construction or its call site."""
    lines = construction(graph, operation)
    return lines[0] if lines else operation.source


def line_or_name(graph: Graph, operation: Operation) -> str:
    """The line that an operation is known by; its module or name where there is none."""
    return own_line(graph, operation) or operation.source or operation.module or operation.op


def calling_module(graph: Graph, operation: Operation) -> str:
    """The module whose code calls an operation, a layer's holder for a layer's."""
    return operation.module.rpartition(".")[0] if operation.module in graph.kinds else operation.module


def reference_line(graph: Graph, operation: Operation | None, *, built: bool) -> str | None:
    """The reference's line beside: of the construction, or of the call."""
    if operation is None:
        return None
    return own_line(graph, operation) if built else operation.source


def is_container_line(graph: Graph, operation: Operation) -> bool:
    """Whether an operation's innermost line runs several layers, as a Sequential's does."""
    if operation.module not in graph.kinds:
        return False
    if operation.source is None:
        return True
    container = operation.module.rpartition(".")[0]
    for other in graph.operations:
        if other.stack != operation.stack or other.module == operation.module:
            continue
        if other.module.rpartition(".")[0] == container:
            return True
    return False


@dataclass(frozen=True)
class Passage:
    """An operation at fault, and the lines that led to it, to find the one that decided.

    Args:
        judgement: of the run as it is.
        guilt: the fault.
        operation: at fault.
        lines: those that led to it, the innermost first; of its layer's construction or of its call.
        by_construction: whether they are those of its layer's construction.
        alike: whether right operations with the same arguments exonerate a line as well.
        twin: what the reference has in place of the operation.
        apart: whether only operations that came by other lines exonerate one.
    """

    judgement: Judgement
    guilt: Guilt
    operation: Operation
    lines: tuple[str, ...]
    by_construction: bool = False
    alike: bool = False
    twin: Operation | None = None
    apart: bool = False

    @cached_property
    def due(self) -> Operation | None:
        """The reference's operation in its place."""
        if self.twin is not None and self.twin.kind == self.operation.kind:
            return self.twin
        return computing(self.guilt.trial.due.maker)

    @cached_property
    def counterpart(self) -> Operation | None:
        """The reference's operation in its place, if it is of the same kind."""
        if self.due is None or self.due.kind != self.operation.kind:
            return None
        return self.due

    @cached_property
    def guilty(self) -> set[int]:
        """The numbers of the operations at fault."""
        return {o.number for o in (self.operation, *self.guilt.repeats)} | self.guilt.replaced

    @cached_property
    def right(self) -> list[tuple[Graph, Operation]]:
        """Right operations of the run as it is, and of the mended one.

        None that takes a result of one at fault: it is right by what was put in its place. None of the kind that brings elements into
        another order than the reference has.
        """
        found: list[tuple[Graph, Operation]] = []
        for run in dict.fromkeys((self.judgement, self.guilt.mended or self.judgement)):
            for operation in run.candidate.operations:
                if operation.number in self.guilty or not _is_right(run, operation, self.guilt.replaced):
                    continue
                if any(maker.number in self.guilty for maker in makers(operation.inputs)):
                    continue
                if operation.kind == self.operation.kind and any(map(run.disordered, operation.outputs)):
                    continue
                found.append((run.candidate, operation))
        return found

    @cached_property
    def others(self) -> list[tuple[Graph, Operation]]:
        """Right operations of the kind with other arguments, and of the kind that is due.

        Those with the same arguments as well, where the reference gives them these: they are right there by no chance.
        """
        kind = self.operation.kind
        found = [(g, o) for g, o in self.right if o.kind == kind and self._exonerates(o)]
        if self.due is not None and self.due.kind != kind:
            found += [(g, o) for g, o in self.right if o.kind == self.due.kind]
        return found

    def _exonerates(self, other: Operation) -> bool:
        """Whether a right operation of the kind shows that the lines it passed are right."""
        if self.alike or other.arguments != self.operation.arguments:
            return True
        return self._is_due(other)

    def _is_due(self, other: Operation) -> bool:
        """Whether the reference gives a right operation the arguments that are wrong here."""
        if self.counterpart is None:
            return False
        wrong = differing(self.operation.arguments, self.counterpart.arguments)
        due = makers(partner for value in other.outputs for partner in self.judgement.partners(value))
        alike = [twin for twin in due if twin.kind == other.kind]
        if not wrong or not alike:
            return False
        return all(wrong.isdisjoint(differing(other.arguments, twin.arguments)) for twin in alike)

    @cached_property
    def unshared(self) -> str:
        """The innermost line that no other right operation has passed, by the same lines within.

        Where one has, the arguments come from further out: a helper that is used with right and with wrong ones. Of lines that are all
        the same it is the one that calls such a helper more than once.
        """
        ways = {self._lines(g, o) for g, o in self.others}
        if self.apart:
            ways.discard(self.lines)
        for depth, line in enumerate(self.lines, 1):
            if all(way[:depth] != self.lines[:depth] for way in ways):
                return line
        return _calling(self.lines, ways)

    @cached_property
    def innermost(self) -> str:
        """The line to look at: ``unshared``, or further out past a helper that others use."""
        if self.unshared != self.lines[0] or self.counterpart is None or self.alike:
            return self.unshared
        depth = _shared_in_reference(self.judgement.reference, self.counterpart, by_construction=self.by_construction)
        if not 0 < depth < len(self.lines):
            return self.unshared
        for graph, operation in self.right:
            if operation.kind != self.operation.kind:
                continue
            way = self._lines(graph, operation)
            if way[:depth] == self.lines[:depth] and way[: depth + 1] != self.lines[: depth + 1]:
                return self.lines[depth]
        return self.unshared

    def _lines(self, graph: Graph, operation: Operation) -> tuple[str, ...]:
        return _lines_of(graph, operation, by_construction=self.by_construction)

    def argument(self) -> str | None:
        """The call that gives the layer its differing argument, if its line is right elsewhere."""
        names = self._differing()
        if not names or not self._is_fine_elsewhere():
            return None
        return argument_line(self.lines, names)

    def _differing(self) -> set[str]:
        """The arguments that differ, if the innermost line constructs the layer."""
        if self.counterpart is None or self.innermost != self.lines[0]:
            return set()
        return differing(self.operation.arguments, self.counterpart.arguments)

    def _is_fine_elsewhere(self) -> bool:
        """Whether this line built a right layer of the kind too, or builds one layer only."""
        for graph, operation in self.right:
            if operation.kind != self.operation.kind:
                continue
            if self._is_of_line(graph, operation):
                return True
        graph = self.judgement.candidate
        return len({o.module for o in graph.operations if self._is_of_line(graph, o)}) == 1

    def _is_of_line(self, graph: Graph, operation: Operation) -> bool:
        return construction(graph, operation)[:1] == self.lines[:1]

    def own_setting(self) -> str | None:
        """Where the user's module was constructed whose setting the operation's line reads."""
        if self.innermost != self.unshared:
            return None
        passing = [o for _, o in self.others if o.source == self.operation.source]
        if not passing:
            return None
        return _own_setting(self.judgement.candidate, self.operation, passing)


def _own_setting(graph: Graph, operation: Operation, others: list[Operation]) -> str | None:
    """Where the user's module was constructed whose setting an operation's line reads."""
    path = operation.module
    if path not in graph.built or path in graph.kinds:
        return None
    if path in {o.module for o in others}:
        return None
    held = _held(graph, path)
    code = Code(operation.source)
    for attribute in code.attributes:
        if attribute not in held and code.setting(attribute) is not None:
            return graph.built[path][0]
    return None


def _held(graph: Graph, path: str) -> set[str]:
    """The attributes of a module that hold tensors or other modules."""
    tensors = [v.record.name for v in graph.values.values() if v.record.role in ("parameter", "buffer")]
    begin = f"{path}."
    return {name.removeprefix(begin).partition(".")[0] for name in (*tensors, *graph.built) if name.startswith(begin)}


def _is_right(judgement: Judgement, operation: Operation, replaced: set[int]) -> bool:
    """Whether an operation makes right results, or others make right ones of them at once."""
    if not judgement.takes_right(operation):
        return False
    wrong = [v for v in made(operation) if not judgement.is_right(v)]
    if not wrong:
        return True
    after: list[Value] = []
    for value in wrong:
        for user in computing_users(value):
            if user.kind in MOVES:
                continue
            if user.number in replaced:
                return False
            after += made(user)
    return bool(after) and judgement.wrong.isdisjoint(after)


def _calling(lines: tuple[str, ...], ways: set[tuple[str, ...]]) -> str:
    """The innermost line that calls what holds the inner line several times; else the first."""
    if lines not in ways:
        return lines[0]
    for inner, outer in pairwise(lines):
        if calls(outer, inner) > 1:
            return outer
    return lines[0]


def _lines_of(graph: Graph, operation: Operation, *, by_construction: bool) -> tuple[str, ...]:
    return construction(graph, operation) if by_construction else operation.stack


def _shared_in_reference(graph: Graph, due: Operation, *, by_construction: bool) -> int:
    """How many innermost lines others of the kind share that have other arguments."""
    own = _lines_of(graph, due, by_construction=by_construction)
    shared = 0
    for other in graph.operations:
        if other.kind == due.kind and other.arguments != due.arguments:
            shared = max(shared, begin_alike(own, _lines_of(graph, other, by_construction=by_construction)))
    return shared
