"""Gradients that a user names by tensor, module or line, and where they part.

Which values of both sides belong together, their contents say, so that the name of one side is enough.
"""

from __future__ import annotations

import difflib
import math
from pathlib import PurePath
from typing import TYPE_CHECKING

from paralign.adapters._kinds import MOVES
from paralign.capture import digest as digests
from paralign.errors import UsageError
from paralign.locate.described import divergence, gradient_divergence, merged
from paralign.locate.gradients.gradient_patching import proven
from paralign.locate.laboratory.watched import Watched
from paralign.locate.suspects.patching import guilty
from paralign.model import ALIGNED, DIVERGED, NOT_TESTED, UNDERPOWERED, Listing, Pair, StageResult, Stats, overall
from paralign.worker.protocol import Operations
from paralign.worker.sides.session import DOUBLE, NATIVE
from paralign.worker.steps.training import MODES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from paralign.context import Context
    from paralign.locate.gradients.gradient_faults import Gradients
    from paralign.locate.runs.dataflow import Graph, Value

#: what the model gives, and what is made of it
OUTPUTS, LOSS = "outputs", "loss"

#: values that a table shows, and names that an error suggests
SHOWN, SUGGESTED = 40, 8

COLUMNS = ["value", "side", "shape", "mean", "rms", "least", "greatest", "error"]


def asked(context: Context, what: str, mode: str) -> StageResult:
    """Both sides' gradients of what is named, of one pass from equal weights and inputs.

    Args:
        context: of both sides, with weights carried over.
        what: a parameter, a module (all that is computed in it), ``file.py:12``, ``outputs`` or ``loss``.
        mode: ``eval``, or ``train`` with what is random switched off.

    Raises:
        UsageError: neither side has what is named.
        WorkerFailed: a side fails.
    """
    result = StageResult("gradient", method=f"one backward pass, {mode} mode")
    missing = context.lacking("gradient", "build_model", "loss") or context.untrainable("gradient")
    if missing:
        return missing
    if context.inputs is None or context.labels is None:
        result.notes.append("no inputs or labels: define inputs() and labels() in the reference, or set [inputs] and [labels]")
        return result
    if not context.observed:
        result.notes.append("single operations of a side's framework cannot be watched: see `paralign check DIR backward` for parameters")
        return result
    order = Operations([DOUBLE, NATIVE], mode=MODES[mode], backward=True)
    watched = Watched(context, order, {"inputs": context.inputs, "labels": context.labels}, name=f"gradients-{mode}")
    gradients = watched.judged_gradients()
    found = _found(gradients, what)
    _compare(result, gradients, found)
    _locate(result, watched)
    result.verdict = overall([pair.verdict for pair in result.pairs if pair.judged])
    if result.verdict == NOT_TESTED:
        result.verdict = UNDERPOWERED
        result.notes.append(f"no value of {what!r} has a counterpart on the other side whose gradient is known: nothing was compared")
    return result


# -- which values are meant ---------------------------------------------------------------------------------------------------------------


def _found(gradients: Gradients, what: str) -> tuple[list[Value], list[Value]]:
    """The values that are named, of the reference and the candidate.

    Raises:
        UsageError: neither has any.
    """
    graphs = gradients.judgement.reference, gradients.judgement.candidate
    for chosen in (_given, _in_module, _at_line, _built_at_line):
        sides = [[v for v in _values(graph) if chosen(graph, v, what)] for graph in graphs]
        if any(sides):
            return sides[0], sides[1]
    names = sorted({name for graph in graphs for name in _names(graph)})
    close = difflib.get_close_matches(what, names, SUGGESTED, 0.4) or names[:SUGGESTED]
    raise UsageError(
        f"neither side computes anything called {what!r}",
        hint=f"name a parameter, a module, file.py:LINE, {OUTPUTS} or {LOSS}; there are: {', '.join(close)}",
    )


def _values(graph: Graph) -> list[Value]:
    """Every value of a pass once, in the order in which they came."""
    return list(dict.fromkeys(graph.values.values()))


def _given(graph: Graph, value: Value, what: str) -> bool:
    """Whether a value is given by that name, or is among what the model gives, or its loss."""
    name = value.record.name
    if value.maker is None and name and name == what:
        return True
    if what == OUTPUTS:
        return value in graph.outputs.values()
    return what == LOSS and value is graph.loss


def _in_module(_: Graph, value: Value, what: str) -> bool:
    """Whether a value is computed in a module or below it, or is its own parameter.

    Buffers have no gradients.
    """
    place = _place(value)
    return place == what or place.startswith(f"{what}.")


def _place(value: Value) -> str:
    """The module that a value is computed in, or the name of a parameter; else ''."""
    if value.maker is not None:
        return value.maker.module
    return value.record.name if value.is_parameter else ""


def _at_line(_: Graph, value: Value, what: str) -> bool:
    """Whether a line computes a value, also by calls that it makes.

    The file may be told by its last parts.
    """
    if value.maker is None:
        return False
    return any(_is_line(frame, what) for frame in value.maker.stack)


def _built_at_line(graph: Graph, value: Value, what: str) -> bool:
    """What is computed in a module that a line constructs."""
    built = [path for path, lines in graph.built.items() if path and any(_is_line(line, what) for line in lines)]
    return any(_in_module(graph, value, path) for path in built)


def _is_line(frame: str, what: str) -> bool:
    (path, _, number), (file, _, line) = frame.rpartition(":"), what.rpartition(":")
    parts = PurePath(file).parts
    if not parts:
        return False
    return number == line and PurePath(path).parts[-len(parts) :] == parts


def _names(graph: Graph) -> Iterable[str]:
    for value in _values(graph):
        if value.maker is not None and value.maker.module:
            yield value.maker.module
        elif value.maker is None and value.is_parameter:
            yield value.record.name


# -- both sides' gradients ----------------------------------------------------------------------------------------------------------------


def _compare(result: StageResult, gradients: Gradients, found: tuple[list[Value], list[Value]]) -> None:
    """A pair and two rows for every named value; what only one side has stands alone."""
    wanted = dict.fromkeys(found[1])
    partners = set(found[0])
    for value in _values(gradients.judgement.candidate):
        if value not in wanted and gradients.status(value)[1] in partners:
            wanted[value] = None
    rows, paired = [], set()
    for value in sorted(wanted, key=lambda v: v.order):
        far, due = gradients.status(value)
        if value.gradient is None and (due is None or due.gradient is None):
            continue  # nothing flows there on either side
        if due is not None:
            paired.add(due)
        rows += _rows(value, due, far)
        result.pairs.append(_pair(value, due, far))
    alone = [v for v in found[0] if v not in paired and _is_shown(v)]
    rows += [_row(_called(v), "reference", v, "no counterpart") for v in alone]
    if len(rows) > SHOWN:
        result.notes.append(f"{len(rows) - SHOWN} further lines of the table are left out; report them with --json, or name less")
    result.tables.append(Listing("gradients", COLUMNS, rows[:SHOWN]))


def _is_shown(value: Value) -> bool:
    """Whether a value without a counterpart has a gradient, and was not only moved."""
    if value.gradient is None:
        return False
    return value.maker is None or value.maker.kind not in MOVES


def _pair(value: Value, due: Value | None, far: float | None) -> Pair:
    name, record = f"gradient of {_called(value)}", None if due is None else due.record
    if due is None or far is None:
        pair = Pair(name, record, value.record, verdict=NOT_TESTED, how="values")
        pair.judged = False
        pair.notes.append("no value of the reference is this one: its gradient has no counterpart")
        return pair
    pair = Pair(name, record, value.record, verdict=DIVERGED if far else ALIGNED, how="values")
    pair.judged = True
    pair.stats = Stats(count=value.size, rel_l2=far, rms_reference=_rms(due), rms_candidate=_rms(value))
    pair.stats.max_abs = pair.stats.mean_abs = pair.stats.max_rel = pair.stats.cosine = math.nan  # digests do not tell
    if math.isinf(far):
        pair.notes.append("one side has no gradient there")
    return pair


def _rms(value: Value) -> float:
    """The root mean square of a value's gradient; 0 where there is none, or it cannot be read."""
    return 0.0 if value.gradient_digest is None else digests.figures(value.gradient_digest).rms


def _rows(value: Value, due: Value | None, far: float | None) -> list[list[str]]:
    if due is None:
        return [_row(_called(value), "candidate", value, "no counterpart")]
    return [_row(_called(value), "reference", due, ""), _row("", "candidate", value, _told(far))]


def _told(far: float | None) -> str:
    """How far a gradient is from its counterpart's, in a word."""
    if far is None:
        return ""
    if far == 0:
        return "within noise"
    return "only one" if math.isinf(far) else f"{far:.2g}"


def _row(name: str, side: str, value: Value, told: str) -> list[str]:
    digest = value.gradient_digest
    shape = " x ".join(map(str, value.shape)) or "scalar"
    if digest is None:
        return [name, side, shape, "no gradient" if value.gradient is None else "cannot be read", "", "", "", told]
    figures = digests.figures(digest)
    scale = figures.rms
    return [
        name,
        side,
        shape,
        *(f"{number:.5g}" for number in (figures.mean * scale, scale, figures.low * scale, figures.high * scale)),
        told,
    ]


def _called(value: Value) -> str:
    """What a value is called: a tensor's name, else the operation, its module and its line."""
    if value.maker is None:
        return value.record.name or "constant"
    line = PurePath(value.maker.source).name if value.maker.source else ""
    return " ".join(filter(None, (value.maker.op, value.maker.module and f"in {value.maker.module}", line)))


# -- where they part ----------------------------------------------------------------------------------------------------------------------


def _locate(result: StageResult, watched: Watched) -> None:
    """Where values or gradients start to differ, each place confirmed by a run."""
    found, _ = guilty(watched, watched.judgement())
    if found:
        result.divergences = merged([divergence(guilt, watched) for guilt in found])
        result.warnings.append("values of the forward pass differ already: gradients of what comes after are held against nothing")
    else:
        make: Callable[..., Gradients] = watched.judged_gradients
        faults = proven(watched, make(), make)
        result.divergences = merged([gradient_divergence(fault, make().judgement) for fault in faults])
    result.divergence = next(iter(result.divergences), None)
    if not result.divergences:
        result.notes.append("the backward passes part nowhere: every parameter's gradient is the reference's")
    elif overall([pair.verdict for pair in result.pairs if pair.judged]) == ALIGNED:
        result.notes.append("what was asked for agrees; the backward passes part elsewhere, as told")
    result.notes += watched.remarks()
