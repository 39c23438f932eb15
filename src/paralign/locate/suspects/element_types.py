"""Operations that a side computes in a lower precision than the other natively."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paralign.adapters._kinds import MOVES
from paralign.capture import digest as digests
from paralign.dtypes import EPS, is_complex, is_floating
from paralign.locate.optimizer.setting_lines import code_at
from paralign.locate.reaching import reached
from paralign.locate.runs.construction import own_line
from paralign.locate.runs.traverse import makers, users_of
from paralign.locate.source.statements import parsed
from paralign.model import Divergence, Point, SourceLine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paralign.locate.runs.dataflow import Graph, Operation
    from paralign.locate.runs.judgement import Judgement

#: what a divergence by precision is called
LOWER = "precision"

#: what digests of the same values in two element types differ by at most, where no digit was lost
_EXACT = 1e-10

#: names of what switches to a lower precision for the statements within
_SWITCHES = ("autocast", "auto_cast", "amp_guard")


def lowered(judgement: Judgement, natives: tuple[Graph | None, Graph | None]) -> list[Divergence]:
    """The operations that the candidate computes in a lower precision than the reference.

    Args:
        judgement: of the runs that were compared.
        natives: both sides' native runs.
    """
    first, second = natives
    if first is None or second is None:
        return []
    own = _own_precision(first)
    if own is None or not _lowers(second, own):
        return []
    theirs, ours = (_by_number(judgement.reference, first), _by_number(judgement.candidate, second))
    precisions = [_precision(o) for o in first.operations]
    usual = max((EPS[dtype] for dtype in precisions if dtype is not None), default=own)
    found: dict[str | None, Divergence] = {}
    idle = _idle_casts(second)
    for operation in judgement.candidate.operations:
        mine = ours.get(operation.number)
        if mine is None or mine in idle or not _coarser(mine, own):
            continue
        twin = judgement.twin(operation)
        other = None if twin is None else theirs.get(twin.number)
        dtype = _precision(mine) or ""
        if EPS[dtype] > _allowed(other, usual):
            _add(found, _divergence(judgement, mine, other, dtype))
    accounted = {*ours.values(), *idle}
    for operation in second.operations:  # done in the native run alone
        if operation in accounted:
            continue
        precision = _precision(operation)
        if precision is not None and EPS[precision] > max(own, usual):
            _add(found, _divergence(judgement, operation, None, precision))
    return list(found.values())


def _allowed(other: Operation | None, usual: float) -> float:
    """How coarsely an operation may round beside the reference's, where that rounds."""
    expected = None if other is None else _precision(other)
    return usual if expected is None else EPS[expected]


def _lowers(native: Graph, own: float) -> bool:
    """Whether a native run computes anything more coarsely than its side is given."""
    return any(_coarser(operation, own) for operation in native.operations)


def _add(found: dict[str | None, Divergence], divergence: Divergence) -> None:
    """Keep one divergence a line."""
    known = found.setdefault(divergence.candidate.source if divergence.candidate is not None else None, divergence)
    known.repeats += known is not divergence


def raised(coarser: OneSided | None) -> list[str]:
    """A remark where the reference alone computes in a lower precision than it is given."""
    if coarser is None or coarser.side != "reference":
        return []
    where = f"{coarser.module} ({coarser.dtype})"
    return [f"the reference computes {coarser.count} operations in a lower precision than its weights have, the candidate none: {where}"]


@dataclass(frozen=True)
class OneSided:
    """One side alone computes natively in another precision than it is given.

    ``count`` operations that come to the outputs do, the first in ``module``, at ``source``, in ``dtype``; ``counterpart`` is the other
    side's line for it, where that was sought.
    """

    side: str
    count: int
    dtype: str
    source: str | None
    module: str
    counterpart: str | None = None


def coarser(natives: tuple[Graph | None, Graph | None]) -> OneSided | None:
    """What one side alone computes in a lower precision than the reference is given.

    Args:
        natives: both sides' native runs.
    """
    first, second = natives
    own = None if first is None else _own_precision(first)
    if first is None or second is None or own is None:
        return None
    found = [_computed_coarser(graph, own) for graph in (first, second)]
    if bool(found[0]) == bool(found[1]):
        return None
    if found[0]:
        return _one_sided("reference", first, found[0])
    return _one_sided("candidate", second, found[1])


def _computed_coarser(graph: Graph, own: float) -> list[Operation]:
    """The operations that round more coarsely than the reference is given.

    Those from which something comes to the outputs.
    """
    reaching = _reaching(graph)
    return [operation for operation in graph.operations if operation in reaching and _coarser(operation, own)]


def _one_sided(side: str, graph: Graph, operations: Sequence[Operation], counterpart: str | None = None) -> OneSided:
    """What is said of the operations of one side: their number and the first of them."""
    first = operations[0]
    return OneSided(side, len(operations), _precision(first) or "", own_line(graph, first), first.module or "the model", counterpart)


def finer(judgement: Judgement, natives: tuple[Graph | None, Graph | None]) -> OneSided | None:
    """What one side alone computes in a higher precision than its weights and inputs have.

    Args:
        judgement: of the runs that were compared.
        natives: both sides' native runs.
    """
    first, second = natives
    if first is None or second is None:
        return None
    found = _computed_finer(first), _computed_finer(second)
    if bool(found[0]) == bool(found[1]):
        return None
    if found[1]:
        return _one_sided("candidate", second, found[1])
    numbers = {native: number for number, native in _by_number(judgement.reference, first).items()}
    there = None
    for operation in found[0]:
        there = there or _line_of_twin(judgement, numbers.get(operation))
    return _one_sided("reference", first, found[0], there)


def _line_of_twin(judgement: Judgement, number: int | None) -> str | None:
    """The candidate's line of the operation whose twin has a number; None without one."""
    for operation in judgement.candidate.operations if number is not None else ():
        twin = judgement.twin(operation)
        if twin is not None and twin.number == number:
            return own_line(judgement.candidate, operation)
    return None


def _computed_finer(graph: Graph) -> list[Operation]:
    """The operations that compute in a higher precision than the side is given.

    Those from which something comes to the outputs.
    """
    own = _own_precision(graph)
    if own is None:
        return []
    reaching = _reaching(graph)
    found = []
    for operation in graph.operations:
        precision = _precision(operation)
        if operation in reaching and operation.kind not in MOVES and precision is not None and EPS[precision] < own:
            found.append(operation)
    return found


def _own_precision(graph: Graph) -> float | None:
    """The coarsest rounding of what a side is given: parameters and inputs."""
    given = [v.record.dtype for v in graph.values.values() if v.maker is None and v.record.name]
    return max((EPS[d] for d in given if _is_real(d)), default=None)


def _is_real(dtype: str) -> bool:
    return is_floating(dtype) and not is_complex(dtype)


def _precision(operation: Operation) -> str | None:
    """The element type that an operation rounds to; None for moves and no real numbers.

    A cast rounds where its result has lost digits and no operation computes with it in that type, which says it then.
    """
    dtypes = [v.record.dtype for v in operation.outputs if _is_real(v.record.dtype)]
    if not dtypes or (operation.kind in MOVES and not _loses_digits(operation)):
        return None
    return max(dtypes, key=lambda d: EPS[d])


def _idle_casts(graph: Graph) -> set[Operation]:
    """Casts of which nothing comes to the outputs, as those for a log do."""
    reaching = _reaching(graph)
    return {o for o in graph.operations if o.kind == "cast" and o not in reaching}


def _reaching(graph: Graph) -> set[Operation]:
    """The operations of which something comes to the outputs or the loss."""
    ends = list(graph.outputs.values())
    if graph.loss is not None:
        ends.append(graph.loss)
    return set(reached(makers(ends), lambda operation: makers(operation.inputs)))


def _loses_digits(operation: Operation) -> bool:
    """Whether an operation casts real numbers that a coarser type does not hold."""
    if operation.kind != "cast" or not operation.inputs:
        return False
    given, made = operation.inputs[0], operation.outputs[0]
    before, after = given.record.dtype, made.record.dtype
    if not _is_real(before) or not _is_real(after) or EPS[after] <= EPS[before]:
        return False
    if any(_computes_in(user, after) for user in made.users):
        return False
    if given.digest is None or made.digest is None:
        return False
    return digests.distance(given.digest, made.digest) > _EXACT


def _computes_in(operation: Operation, dtype: str) -> bool:
    """Whether an operation computes in a type, or hands what it moves to one that does."""
    own = [v for v in operation.outputs if v.record.dtype == dtype]
    if operation.kind not in MOVES:
        return bool(own)
    return any(_computes_in(user, dtype) for user in users_of(own) if user is not operation)


def _coarser(operation: Operation, own: float) -> bool:
    dtype = _precision(operation)
    return dtype is not None and EPS[dtype] > own


def _by_number(graph: Graph, native: Graph) -> dict[int, Operation]:
    """Operations of a run by number -> the same operations of the native run."""
    if graph.run == native.run:
        return {o.number: o for o in native.operations}
    makers = {v.record.id: v.maker for v in native.values.values() if v.maker is not None}
    found = {}
    for number, record in graph.noise_of(native).items():
        maker = graph.values[number].maker
        if maker is not None and record.id in makers:
            found[maker.number] = makers[record.id]
    return found


def _divergence(judgement: Judgement, operation: Operation, other: Operation | None, dtype: str) -> Divergence:
    there, due = None, None
    if other is not None:
        there, due = _point(other, own_line(judgement.reference, other)), _precision(other)
    here = _point(operation, _switch_line(operation.stack) or own_line(judgement.candidate, operation))
    said = f"computed in {dtype} here, in {due or 'a higher precision'} by the reference; where all is float64 it does not show"
    return Divergence(there, here, confirmed=True, what=LOWER, notes=[said])


def _point(operation: Operation, line: str | None) -> Point:
    """The place of an operation at a line, with the other lines of its call."""
    others = [source for source in operation.stack if source != line]
    return Point(operation.module, operation.op, line, code_at(line), others, {"dtype": _precision(operation)})


def _switch_line(stack: Sequence[str]) -> str | None:
    """The innermost ``with`` or decorator line that lowers an operation's precision."""
    for source in stack:
        place = SourceLine.of(source)
        tree = None if place is None else parsed(place.file)
        if place is None or tree is None:
            continue
        for node in _around(tree, place.line):
            switch = _switch(node)
            if switch is not None:
                return str(place.at(switch.lineno))
    return None


def _around(tree: ast.Module, line: int) -> list[ast.With | ast.FunctionDef]:
    """The ``with`` statements and functions that hold a line, the innermost first."""
    found = [n for n in ast.walk(tree) if isinstance(n, ast.With | ast.FunctionDef) and n.lineno <= line <= (n.end_lineno or n.lineno)]
    return sorted(found, key=lambda n: -n.lineno)


def _switch(node: ast.With | ast.FunctionDef) -> ast.expr | None:
    """The first of its contexts or decorators that switches to a lower precision."""
    calls = [item.context_expr for item in node.items] if isinstance(node, ast.With) else node.decorator_list
    for call in calls:
        code = ast.unparse(call)
        if any(word in code for word in _SWITCHES):
            return call
    return None
