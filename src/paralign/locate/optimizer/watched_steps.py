"""Where in a hand-written optimizer an update goes wrong.

Single operations of its steps, from equal gradients.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from paralign.locate.described import divergence, merged
from paralign.locate.laboratory.watched import Watched
from paralign.locate.optimizer import step_difference
from paralign.locate.optimizer.setting_lines import code_at
from paralign.locate.runs.dataflow import Graph
from paralign.locate.runs.judgement import Judgement, Scale
from paralign.locate.suspects.patching import guilty
from paralign.model import LineProposal
from paralign.run.recorder import both
from paralign.worker.protocol import watched_pass
from paralign.worker.sides.session import DOUBLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.dtypes import Typed
    from paralign.locate.runs.dataflow import Value
    from paralign.locate.suspects.patching import Patch
    from paralign.locate.types import Guilt
    from paralign.model import Divergence, Point
    from paralign.weights import Plan
    from paralign.worker.protocol import Stepping

#: the id of the rule that chooses a line of a step
RULE = "optimizer-step"

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
        order: the steps, in both precisions; nothing is watched in them yet.
        names: the watched parameters, reference's name -> candidate's.
    """

    def __init__(self, context: Context, given: tuple[Capture, Capture], order: Stepping, names: dict[str, str]) -> None:
        name = order.task
        self._reference = replace(order, watched={name: name for name in names}, apart=True), {"gradients": given[0]}
        own = replace(order, watched={other: name for name, other in names.items()})
        captures = both(
            lambda: context.reference.record(name, *self._reference),
            lambda: context.candidate.record(name, own, {"gradients": given[1]}),
        )
        super().__init__(context, own, {"gradients": given[1]}, name, captures)
        self._names_of_outputs = tuple(names)

    def judgement(self, graph: Graph | None = None, *, fine: bool = True) -> Judgement:  # noqa: ARG002 - they always are
        """The candidate's steps, or another run of them, judged finely."""
        own = graph or Graph(self.candidate, self.run_name)
        own.outputs = _outputs(own, self._names_of_outputs)
        return step_difference.settled(Judgement(self._graph, own, self._noise(), FINE))

    def focus(self, names: Sequence[str]) -> Judgement:
        """Judge the candidate's steps by some parameters alone, also those run later."""
        self._names_of_outputs = tuple(names)
        self._graph.outputs = _outputs(self._graph, names)
        return self.judgement()

    def run(self, patches: Sequence[Patch]) -> Graph | None:
        """The candidate's steps with some results replaced; None where they fail with them."""
        graph = super().run(patches)
        if graph is not None:
            graph.outputs = _outputs(graph, self._names_of_outputs)
        return graph

    def values(self, wanted: Sequence[Value], *, own: bool = False) -> dict[Value, Typed]:
        """The values of the reference's steps, whole; ``own``: of the candidate's."""
        kept = self.order, self.given
        self.order, self.given = kept if own else self._reference
        try:
            return super().values(wanted, own=own)
        finally:
            self.order, self.given = kept


def chosen(plan: Plan, wrong: Sequence[str], right: Sequence[str]) -> dict[str, str]:
    """The parameters to be watched, reference's name -> candidate's.

    Of each kind a few that are neither tiny nor huge.

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


def located(context: Context, given: tuple[Capture, Capture], order: Stepping, names: dict[str, str]) -> tuple[list[Divergence], list[str]]:
    """The guilty operations of the candidate's steps, and remarks.

    Raises:
        WorkerFailed: a side fails when it is watched.
    """
    if not names or not context.observed:
        return [], []
    watched = Stepped(context, given, order, names)
    if watched.run_name != DOUBLE:
        return [], []
    found, notes = _hunted(watched, list(names))
    lines = [(guilt, step_difference.line_of(guilt)) for guilt in sorted(found, key=lambda guilt: not guilt.confirmed)]
    divergences = merged([_told(guilt, line) for guilt, line in lines if guilt.confirmed or line is not None])
    if divergences:
        return divergences, notes
    guilt = step_difference.unwritten(watched.focus(list(names)))
    if guilt is None:
        return [], notes
    return [_told(guilt, guilt.trial.suspect.source)], notes


def _hunted(watched: Stepped, names: list[str]) -> tuple[list[Guilt], list[str]]:
    """The faults that make parameters wrong, one parameter after the other.

    As long as the last one's faults leave others wrong.
    """
    found: list[Guilt] = []
    notes: list[str] = []
    judgement = watched.focus(names)
    while names and judgement.wrong_outputs():
        wrong = {second for _, second in judgement.wrong_outputs()}
        name = next(n for n, v in _outputs(judgement.candidate, names).items() if v in wrong)
        guilts, said = guilty(watched, watched.focus([name]), outright=True)
        found += guilts
        notes += [note for note in said if note not in notes]
        names = names[names.index(name) + 1 :]
        mended = guilts[-1].mended if guilts else None
        judgement = watched.focus(names)
        if mended is not None and guilts[0].confirmed:
            judgement = watched.judgement(mended.candidate)
    return found, notes


def _outputs(graph: Graph, names: Sequence[str]) -> dict[str, Value]:
    """The parameters of some names after the last step."""
    numbers = watched_pass(graph.capture, graph.run).outputs
    return {name: graph.values[numbers[name]] for name in names if name in numbers}


def _told(guilt: Guilt, line: str | None) -> Divergence:
    """A fault as reported, at the line where the candidate's way leaves the reference's."""
    told = divergence(guilt)
    if guilt.repeats:
        told.notes[-1] = f"the same in {len(guilt.repeats)} more results of this line: for other parameters, or in other steps"
    if line is not None and told.candidate is not None:
        move(told.candidate, line)
        told.rule = RULE
        told.proposals.insert(0, LineProposal(RULE, line))
    return told


def move(point: Point, line: str) -> None:
    """Put a point at another line, and keep the one that it had among those that led there."""
    lines = [point.source, *point.lines]
    point.source, point.code = line, code_at(line)
    point.lines = [other for other in dict.fromkeys(lines) if other is not None and other != line]
