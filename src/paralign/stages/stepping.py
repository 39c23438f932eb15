"""Where in a hand-written optimizer an update goes wrong: single operations of its steps, from equal gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paralign.locate import chains
from paralign.locate.graph import Graph
from paralign.locate.judgement import Judgement, Scale
from paralign.locate.replay import guilty
from paralign.locate.settings import code_at
from paralign.run.recorder import both
from paralign.stages.locating import Watched, divergence, merged
from paralign.worker.session import DOUBLE, NATIVE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paralign.capture import Capture
    from paralign.dtypes import Typed
    from paralign.locate.graph import Value
    from paralign.locate.replay import Guilt
    from paralign.model import Divergence
    from paralign.stages.context import Context
    from paralign.weights import Plan

#: parameters that are watched: those that move wrongly, and others beside them
WRONG, RIGHT = 4, 2

#: elements that make a parameter telling, and those of all watched parameters together beyond which the smallest alone are taken
TELLING, ELEMENTS = 16, 1 << 22

#: steps that are watched, at most
STEPS = 8

#: how errors are judged: numbers of an optimizer are kept in float64, unlike constants of kernels
FINE = Scale(equal=2e-8, floor=2.4e-8)


class Stepped(Watched):
    """The steps of both sides from the same gradients.

    Args:
        context: the check.
        given: the reference's gradients, and the same in the candidate's layout.
        options: of the task ``stepping``, without ``watched``.
        names: the watched parameters, reference's name -> candidate's.
    """

    task = "stepping"

    def __init__(self, context: Context, given: tuple[Capture, Capture], options: dict[str, Any], names: dict[str, str]) -> None:
        self._reference = {**options, "watched": {name: name for name in names}, "apart": True}, {"gradients": given[0]}
        own: dict[str, Any] = {**options, "watched": {other: name for name, other in names.items()}}
        runs = {"runs": [DOUBLE, NATIVE]}
        captures = both(
            lambda: context.reference.record(self.task, self.task, {**self._reference[0], **runs}, self._reference[1]),
            lambda: context.candidate.record(self.task, self.task, {**own, **runs}, {"gradients": given[1]}),
        )
        super().__init__(context, own, {"gradients": given[1]}, self.task, captures)

    def judgement(self, graph: Graph | None = None, *, fine: bool = True) -> Judgement:  # noqa: ARG002 - they always are
        """The candidate's steps, or another run of them, judged finely."""
        return Judgement(self._graph, graph or Graph(self.candidate, self.run_name), self._noise(), FINE)

    def values(self, wanted: Sequence[Value]) -> list[Typed]:
        """The values of the reference's steps, whole."""
        kept = self.options, self.given
        self.options, self.given = self._reference
        try:
            return super().values(wanted)
        finally:
            self.options, self.given = kept


def chosen(plan: Plan, wrong: Sequence[str], right: Sequence[str]) -> dict[str, str]:
    """The parameters to be watched, reference's name -> candidate's: of each kind a few that are neither tiny nor huge.

    Only parameters that are one tensor on both sides, whose elements have the same order or are put in order by their shape.
    """
    found: dict[str, str] = {}
    elements = 0
    for names, most in ((wrong, WRONG), (right, RIGHT)):
        sizes = {name: size for name in names if (size := _size(plan, name))}
        kinds: dict[bool, list[str]] = {True: [], False: []}
        for name in sorted(sizes, key=lambda n: (sizes[n] < TELLING, sizes[n])):
            kinds[_dims(plan, name) > 1].append(name)
        taken = kinds[True][: most // 2] + kinds[False][: most // 2]
        taken += [name for name in (*kinds[True], *kinds[False]) if name not in taken][: most - len(taken)]
        for name in sorted(taken, key=lambda n: sizes[n]):
            if not found or elements + sizes[name] <= ELEMENTS:
                candidate = plan.moves_of(name)[0].candidate
                found[name] = candidate.name if candidate is not None else ""
                elements += sizes[name]
    return found


def _dims(plan: Plan, name: str) -> int:
    first = plan.moves_of(name)[0].reference
    return len(first.shape) if first is not None else 0


def _size(plan: Plan, name: str) -> int:
    """The elements of a parameter that can be watched; 0 of one that cannot."""
    moves = plan.moves_of(name)
    one, other = (moves[0].reference, moves[0].candidate) if len(moves) == 1 else (None, None)
    if one is None or other is None or len(plan.fillings().get(other.name, ())) != 1:
        return 0
    lengths = [n for n in one.shape if n != 1]
    if moves[0].transform and (sorted(one.shape) != sorted(other.shape) or len(set(lengths)) != len(lengths)):
        return 0
    count = 1
    for length in one.shape:
        count *= length
    return count


def located(
    context: Context, given: tuple[Capture, Capture], options: dict[str, Any], names: dict[str, str]
) -> tuple[list[Divergence], list[str]]:
    """The guilty operations of the candidate's steps, and remarks.

    Raises:
        WorkerFailed: a side fails when it is watched.
    """
    if not names or not all(context.about[side].get("observes") for side in ("reference", "candidate")):
        return [], []
    watched = Stepped(context, given, options, names)
    if watched.run_name != DOUBLE:
        return [], []
    found, notes = guilty(watched, watched.judgement(), outright=True)
    lines = [(guilt, chains.line_of(guilt)) for guilt in sorted(found, key=lambda guilt: not guilt.confirmed)]
    return merged([_told(guilt, line) for guilt, line in lines if guilt.confirmed or line is not None]), notes


def _told(guilt: Guilt, line: str | None) -> Divergence:
    """A fault as it is reported, at the line where the candidate's way to the wrong value leaves the reference's."""
    told = divergence(guilt)
    if guilt.repeats:
        told.notes[-1] = f"the same in {len(guilt.repeats)} more results of this line: for other parameters, or in other steps"
    if line is not None and told.candidate is not None and line != told.candidate.source:
        lines = [told.candidate.source, *told.candidate.lines]
        told.candidate.source, told.candidate.code = line, code_at(line)
        told.candidate.lines = [other for other in dict.fromkeys(lines) if other is not None and other != line]
    return told
