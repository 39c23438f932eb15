"""Operations that a side computes in a lower precision than the other natively."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from paralign.adapters._kinds import MOVES
from paralign.capture import digest as digests
from paralign.dtypes import EPS, is_complex, is_floating
from paralign.locate.optimizer.setting_lines import code_at
from paralign.locate.runs.construction import own_line
from paralign.locate.source.statements import parsed
from paralign.model import Divergence, Point, SourceLine
from paralign.worker.session import DOUBLE

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
    if own is None or not any(_coarser(o, own) for o in second.operations):
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
        expected = None if other is None else _precision(other)
        allowed = usual if expected is None else EPS[expected]
        dtype = _precision(mine) or ""
        if EPS[dtype] > allowed:
            _add(found, _divergence(judgement, mine, other, dtype))
    accounted = {*ours.values(), *idle}
    for operation in second.operations:  # done in the native run alone
        dtype = _precision(operation) or DOUBLE
        if operation not in accounted and EPS[dtype] > usual and _coarser(operation, own):
            _add(found, _divergence(judgement, operation, None, dtype))
    return list(found.values())


def _add(found: dict[str | None, Divergence], divergence: Divergence) -> None:
    """Keep one divergence a line."""
    known = found.setdefault(divergence.candidate.source if divergence.candidate is not None else None, divergence)
    known.repeats += known is not divergence


def raised(natives: tuple[Graph | None, Graph | None]) -> list[str]:
    """A remark where the reference alone computes in a lower precision than it is given."""
    first, second = natives
    own = _own_precision(first) if first is not None else None
    if first is None or second is None or own is None or any(_coarser(o, own) for o in second.operations):
        return []
    low = [o for o in first.operations if _coarser(o, own)]
    where = f"{low[0].module or 'the model'} ({_precision(low[0])})" if low else ""
    return (
        [f"the reference computes {len(low)} operations in a lower precision than its weights have, the candidate none: {where}"]
        if low
        else []
    )


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
    ends = [*graph.outputs.values(), *([graph.loss] if graph.loss is not None else [])]
    waiting, reaching = [v.maker for v in ends if v.maker is not None], set()
    while waiting:
        operation = waiting.pop()
        if operation not in reaching:
            reaching.add(operation)
            waiting += [v.maker for v in operation.inputs if v.maker is not None]
    return {o for o in graph.operations if o.kind == "cast" and o not in reaching}


def _loses_digits(operation: Operation) -> bool:
    """Whether an operation casts real numbers that a coarser type does not hold."""
    if operation.kind != "cast" or not operation.inputs:
        return False
    given, made = operation.inputs[0], operation.outputs[0]
    if not (_is_real(given.record.dtype) and _is_real(made.record.dtype)) or EPS[made.record.dtype] <= EPS[given.record.dtype]:
        return False
    if given.digest is None or made.digest is None or any(_computes_in(user, made.record.dtype) for user in made.users):
        return False
    return digests.distance(given.digest, made.digest) > _EXACT


def _computes_in(operation: Operation, dtype: str) -> bool:
    """Whether an operation computes in a type, or hands what it moves to one that does."""
    own = [v for v in operation.outputs if v.record.dtype == dtype]
    if operation.kind in MOVES:
        return any(_computes_in(user, dtype) for value in own for user in value.users if user is not operation)
    return bool(own)


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
    ends: list[Point | None] = []
    for graph, each in zip((judgement.reference, judgement.candidate), (other, operation), strict=True):
        if each is None:
            ends.append(None)
            continue
        line = (_switch_line(each.stack) if each is operation else None) or own_line(graph, each)
        lines = [source for source in each.stack if source != line]
        ends.append(Point(each.module, each.op, line, code_at(line), lines, {"dtype": _precision(each)}))
    due = _precision(other) if other is not None else None
    said = f"computed in {dtype} here, in {due or 'a higher precision'} by the reference; where all is float64 it does not show"
    return Divergence(ends[0], ends[1], confirmed=True, what=LOWER, notes=[said])


def _switch_line(stack: Sequence[str]) -> str | None:
    """The innermost ``with`` or decorator line that lowers an operation's precision."""
    for source in stack:
        place = SourceLine.of(source)
        tree = None if place is None else parsed(place.file)
        if place is None or tree is None:
            continue
        around = [
            n for n in ast.walk(tree) if isinstance(n, ast.With | ast.FunctionDef) and n.lineno <= place.line <= (n.end_lineno or n.lineno)
        ]
        for node in sorted(around, key=lambda n: -n.lineno):
            calls = [item.context_expr for item in node.items] if isinstance(node, ast.With) else node.decorator_list
            named = [c for c in calls if any(word in ast.unparse(c) for word in _SWITCHES)]
            if named:
                return str(place.at(named[0].lineno))
    return None
