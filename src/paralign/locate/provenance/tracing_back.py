"""Ask both sides how they came to a wrong value, and name the expression of the candidate's that made it wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from paralign.errors import WorkerFailed
from paralign.locate.lines.registry import ablated
from paralign.locate.optimizer.setting_lines import code_at
from paralign.locate.provenance.blame import Search
from paralign.locate.provenance.value_graph import Seen, ValueGraph, behind
from paralign.run.recorder import both
from paralign.worker.protocol import Provenance

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.locate.provenance.blame import Blamed
    from paralign.locate.provenance.value_graph import Expression
    from paralign.model import Divergence

#: the id of the rule in ``report.json``
RULE = "provenance"

#: lines of a chain that are kept, and characters of a value that are shown
CHAIN, SHOWN = 8, 60


@dataclass(frozen=True)
class Sides:
    """What both sides' rewritten programs recorded."""

    reference: ValueGraph
    candidate: ValueGraph


def recorded(context: Context, part: str, values: dict[str, Capture] | None = None, *, paths: Sequence[str] = ()) -> Sides | None:
    """Both sides' expressions while a part of their programs runs; None where a side cannot be run so.

    Args:
        context: the check.
        part: ``model``, ``optimizer``, ``metric`` or ``infer``.
        values: captures that the part takes.
        paths: of ``infer``.
    """
    if RULE in ablated():
        return None
    order = Provenance(part, list(paths))
    try:
        captures = both(
            lambda: context.reference.record(f"provenance-{part}", order, values),
            lambda: context.candidate.record(f"provenance-{part}", order, values),
        )
    except WorkerFailed:
        return None
    answers = [Provenance.answer(capture) for capture in captures]
    if any(answer.failed or not answer.values for answer in answers):
        return None
    return Sides(*(ValueGraph.of(capture) for capture in captures))


def of_value(sides: Sides, candidate: str, reference: str) -> Blamed | None:
    """The expression that made a root of the candidate's wrong; None where none is known.

    Args:
        sides: what was recorded.
        candidate: the root's name.
        reference: that of its counterpart.
    """
    wrong, due = sides.candidate.root(candidate), sides.reference.root(reference)
    if wrong is None or due is None:
        return None
    return Search(wrong, due).first()


def of_argument(sides: Sides, candidate: Expression, reference: Expression | None, names: Iterable[str]) -> Blamed | None:
    """The expression that made an argument of a call wrong; None where the call does not give it, or it is right.

    Args:
        sides: what was recorded.
        candidate: the call.
        reference: the reference's call in its place.
        names: what the argument may be called.
    """
    wanted = set(names)
    wrong = [inner for role, inner in candidate.inputs if role in wanted]
    due = [inner for role, inner in reference.inputs if role in wanted] if reference is not None else []
    if len(wrong) != 1:
        return None
    twin = due[0] if len(due) == 1 else None
    known = twin or reference
    return Search(wrong[0], twin, Seen(behind(known) if known is not None else sides.reference.expressions)).first()


def name(divergence: Divergence | None, found: Blamed | None) -> None:
    """Name the expression as the line of a divergence, with what led from it to the wrong value."""
    if divergence is None or divergence.candidate is None or found is None:
        return
    point = divergence.candidate
    before = [line for line in (point.source, *point.lines) if line]
    lines = dict.fromkeys([each.source for each in found.chain if each.file][:CHAIN] + before)
    point.source, point.code = found.source, code_at(found.source)
    point.lines = [line for line in lines if line != found.source]
    divergence.rule = RULE
    divergence.notes.append(said(found))


def said(found: Blamed) -> str:
    """An expression at fault in words."""
    each, due = found.expression, found.reference
    value = _shown(each)
    beside = f"; the reference has {_shown(due)}, {due.source}" if due is not None and due.file and _shown(due) not in ("", value) else ""
    if not each.values or each.is_copy:
        return f"the value comes from here: {value}{beside}" if value else f"the value comes from here{beside}"
    return f"all that goes in here is the reference's, the result is not{f': {value}' if value else ''}{beside}"


def _shown(each: Expression) -> str:
    """A value in a few characters; '' of what is no number or text."""
    return repr(each.mark[1])[:SHOWN] if each.mark[0] in ("s", "l") else ""
