"""Both sides watched operation by operation, and a laboratory for experiments."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from paralign.capture import Capture, CaptureWriter, clear
from paralign.capture import digest as digests
from paralign.dtypes import STORAGE
from paralign.errors import WorkerFailed
from paralign.locate.gradients.gradient_faults import Gradients
from paralign.locate.laboratory.recorded_values import fetch, lost, made_again, repeated
from paralign.locate.lines import tables
from paralign.locate.runs.counterparts import ordered_distance
from paralign.locate.runs.dataflow import Graph
from paralign.locate.runs.judgement import COORDINATES, Judgement, Scale
from paralign.model import Manifest, Pass
from paralign.run.recorder import Outdated, both
from paralign.worker.protocol import Constants, Operations, Stepping, runs_of
from paralign.worker.sides.session import DOUBLE, NATIVE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from paralign.context import Context
    from paralign.dtypes import Typed
    from paralign.locate.gradients.gradient_patching import GradientPatch
    from paralign.locate.laboratory.recorded_values import Place
    from paralign.locate.runs.dataflow import Value
    from paralign.locate.suspects.patching import Patch
    from paralign.locate.types import Guilt
    from paralign.run.recorder import Recorder

#: the captures of the forward pass
OPERATIONS = "operations"

#: bytes of the reference's values that are kept for further experiments
KEPT = 256 << 20

#: how errors are judged where both sides run natively: rounding of float32 is everywhere
COARSE = Scale(equal=2e-5, floor=2e-6, own=10.0)

#: and where outputs differ in float64 although no single operation does by more than its noise: many small errors add up
FINE = Scale(floor=2.0**-24, thorough=True)

#: and where they agree but for more than float64 rounds: some ten thousand of its roundings
EXACT = Scale(equal=1e-11, floor=2.5e-12)


class Recorded:
    """Two captures of operations, one pass of each, to be judged."""

    def __init__(self, reference: Capture, candidate: Capture) -> None:
        self.reference, self.candidate = reference, candidate
        runs = [set(runs_of(capture).runs) for capture in (reference, candidate)]
        self.run_name = DOUBLE if DOUBLE in runs[0] & runs[1] else NATIVE
        self._other = NATIVE if self.run_name == DOUBLE else DOUBLE
        self._graph, self._own = Graph(reference, self.run_name), Graph(candidate, self.run_name)
        self._again = Graph(reference, self._other) if self._other in runs[0] else None

    def natives(self) -> tuple[Graph | None, Graph | None]:
        """Both sides' native runs; None of one that was not recorded."""
        if self.run_name == NATIVE:
            return self._graph, self._own
        runs = runs_of(self.candidate).runs
        return self._again, Graph(self.candidate, NATIVE) if NATIVE in runs else None

    def judgement(self, graph: Graph | None = None, *, fine: bool = False) -> Judgement:
        """A run of the candidate's, judged; ``fine``: by the rounding of one constant."""
        return self._judged(graph or Graph(self.candidate, self.run_name), self._scale(fine=fine))

    def exact(self) -> Judgement:
        """The candidate's run in float64, judged by the rounding of float64."""
        return self._judged(Graph(self.candidate, DOUBLE), EXACT)

    def _judged(self, graph: Graph, scale: Scale) -> Judgement:
        homes = {reference: candidate for candidate, reference in self._names().items()}
        return Judgement(self._graph, graph, self._noise(), scale, homes=homes)

    def _scale(self, *, fine: bool) -> Scale:
        """How errors are judged in the precision of the runs."""
        if self.run_name != DOUBLE:
            return COARSE
        return FINE if fine else Scale()

    def judged_gradients(self, graph: Graph | None = None) -> Gradients:
        """The gradients of the candidate's run, or of another run of it."""
        return Gradients(self.judgement(graph), self._gradient_noise(), self._names())

    def _names(self) -> dict[str, str]:
        """The candidate's parameters -> the reference's, as far as names tell."""
        return {v.record.name: v.record.name for v in self._graph.values.values() if v.is_parameter}

    def _noise(self) -> dict[int, float]:
        """How far the reference's native run is from its float64 run, value by value."""
        found = self._distances(lambda value: value.digest)
        if self._again is None:
            return found
        for number, record in self._graph.noise_of(self._again).items():
            value = self._graph.values[number]
            if value.maker is not None and value.maker.kind in COORDINATES:
                in_order = ordered_distance(value, self._again.values[record.id]) or 0.0
                found[number] = max(found.get(number, 0.0), min(1.0, in_order))
        return found

    def _gradient_noise(self) -> dict[int, float]:
        return self._distances(lambda value: value.gradient_digest)

    def _distances(self, digest: Callable[[Value], str | None]) -> dict[int, float]:
        if self._again is None:
            return {}
        found = {}
        for number, record in self._graph.noise_of(self._again).items():
            mine, theirs = digest(self._graph.values[number]), digest(self._again.values[record.id])
            if mine is not None and theirs is not None:
                found[number] = min(1.0, digests.distance(mine, theirs))
        return found


class Watched(Recorded):
    """Both sides' operations of one pass, recorded by ``order``; a laboratory on them."""

    def __init__(
        self,
        context: Context,
        order: Operations | Stepping,
        values: dict[str, Capture],
        name: str = OPERATIONS,
        captures: tuple[Capture, Capture] | None = None,
    ) -> None:
        self.context, self.order, self.given, self.name = context, order, values, name
        self._attempts = 0
        #: runs of the candidate that did other operations than the recorded one before anything was changed in them
        self.other_ways = 0
        #: values that a side did not make again
        self.lost: set[Value] = set()
        self._kept: dict[Value, Typed] = {}
        self._lacking: list[Value] | None = None
        super().__init__(
            *captures
            or both(
                lambda: context.reference.record(name, order, values),
                lambda: context.candidate.record(name, order, values),
            )
        )

    def _names(self) -> dict[str, str]:
        """The candidate's parameters -> the reference's, where one became one."""
        plan, found = self.context.plan, {}
        if plan is None:
            return {}
        for source in plan.sources:
            moves = plan.moves_of(source.name)
            if len(moves) == 1 and moves[0].candidate is not None:
                found[moves[0].candidate.name] = source.name
        return found

    def note_confirmed(self, found: Sequence[Guilt]) -> None:
        """Note when the first fault of a search was confirmed."""
        self.context.note_confirmed([guilt.found_at for guilt in found if guilt.confirmed])

    def origin(self, digests_of: Sequence[str], certain: bool) -> str | None:
        """The candidate's line that makes a given value of numbers alone otherwise."""
        reference, candidate = (_constants(recorder, self.given) for recorder in (self.context.reference, self.context.candidate))
        if reference is None or candidate is None:
            return None
        return tables.culprit(reference, candidate, digests_of, certain=certain)

    def number_line(self, source: str, number: float) -> str | None:
        """The candidate's line from which a number came that a line reads by a name."""
        found = _constants(self.context.candidate, self.given)
        return None if found is None else tables.number_line(found, source, number)

    def run(self, patches: Sequence[Patch]) -> Graph | None:
        """The candidate's run with some results replaced; None where it fails with them."""
        return self._repeat(self._write(patches), [], min((patch.number for patch in patches), default=0))

    def backward(self, gradients: Sequence[GradientPatch], undo: Sequence[int]) -> Graph | None:
        """The candidate's run with replaced gradients and undone operations; None if it fails."""
        return self._repeat(self._write((), gradients), undo, min(undo, default=sys.maxsize))

    def _repeat(self, patches: Capture, undo: Sequence[int], first: int) -> Graph | None:
        """The candidate's run with patches, the first at the operation of number ``first``."""
        watch = replace(self.order.watch, undo=list(undo)) if undo else self.order.watch
        order = replace(self.order, runs=[self.run_name], watch=watch, attempt=str(self._attempts))
        try:
            capture = self.context.candidate.record(f"{self.name}-replayed", order, {**self.given, "patches": patches})
        except WorkerFailed:
            return None
        if self.run_name not in runs_of(capture).runs:
            return None
        graph = Graph(capture, self.run_name)
        if not repeated(self._own, graph, first):
            self.other_ways += 1  # the numbers of operations mean others here
            return None
        return graph

    def _write(self, patches: Sequence[Patch], gradients: Sequence[GradientPatch] = ()) -> Capture:
        self._attempts += 1
        folder = self.context.candidate.folder / f"{self.name}-patches"
        clear(folder)
        with CaptureWriter(folder, Manifest(side="candidate", stage="patches", settings={"key": f"patches {self._attempts}"})) as writer:
            for patch in patches:
                writer.add(f"{patch.number}:{patch.place}", patch.value, role="output", op=patch.op, attrs={"made": list(patch.shape)})
            for gradient in gradients:
                writer.add(f"gradient {gradient.number}:{gradient.place}", gradient.value, role="gradient")
        return Capture.open(folder)

    def values(self, wanted: Sequence[Value], *, own: bool = False) -> dict[Value, Typed]:
        """Whole values of the reference's run, or ``own`` ones, as far as they are made again.

        Raises:
            Outdated: the reference's run was recorded in another process, and it does other operations in this one.
        """
        if own:
            return self._fetched(self._made_unchanged(wanted), self.context.candidate)
        new = [value for value in wanted if value not in self._kept]
        found = self._fetched(new, self.context.reference, self._due_later(new))
        known = {value: self._kept[value] for value in wanted if value in self._kept}
        self._keep(found)
        return {**known, **{value: found[value] for value in new if value in found}}

    def _made_unchanged(self, wanted: Sequence[Value]) -> list[Value]:
        """The values that a run of the candidate makes in which nothing is replaced."""
        known = set(self._own.values.values())
        changed = [value for value in wanted if value not in known]
        again = made_again(changed, self._own)
        return [value for value in wanted if value in known or value in again]

    def _due_later(self, wanted: Sequence[Value]) -> list[Value]:
        """Values that later experiments may take, as far as there is room to keep them.

        They are fetched in the same run. An experiment puts in place what the reference computes and the candidate does not, behind what
        was put in place before.
        """
        if not wanted:
            return []
        if self._lacking is None:
            judgement = self.judgement()
            self._lacking = [v for v in self._graph.values.values() if v.maker is not None and not v.maker.written and judgement.lacking(v)]
        room = KEPT - sum(typed.array.nbytes for typed in self._kept.values()) - sum(map(_bytes, wanted))
        first, known = min(value.order for value in wanted), set(wanted)
        found: list[Value] = []
        for value in self._lacking:
            if value.order < first or value in known or value in self._kept:
                continue
            room -= _bytes(value)
            if room < 0:
                break
            found.append(value)
        return found

    def _keep(self, found: dict[Value, Typed]) -> None:
        """Keep copies of the reference's values, as far as there is room.

        A view would hold its whole file.
        """
        held = sum(value.array.nbytes for value in self._kept.values())
        for value, typed in found.items():
            if held + typed.array.nbytes > KEPT:
                continue
            held += typed.array.nbytes
            self._kept[value] = typed._replace(array=np.array(typed.array))

    def gradients(self, wanted: Sequence[Value]) -> dict[Value, Typed]:
        """The whole gradients of the reference's values that it makes again.

        Raises:
            Outdated: as :meth:`values`.
        """
        return self._fetched(wanted, self.context.reference, gradients=True)

    def _fetched(
        self, wanted: Sequence[Value], side: Recorder, besides: Sequence[Value] = (), *, gradients: bool = False
    ) -> dict[Value, Typed]:
        if not wanted:
            return {}

        def record(places: list[Place]) -> Capture:
            watch = self.order.watch
            watch = replace(watch, keep_gradients=places) if gradients else replace(watch, keep=places)
            order = replace(self.order, runs=[self.run_name], watch=watch)
            return side.record(f"{self.name}-values", order, self.given)

        found = fetch(wanted, self.run_name, record, besides=besides, gradients=gradients)
        recorded = {*self._graph.values.values(), *self._own.values.values()}
        missing = [value for value in lost(wanted, found) if value in recorded]  # others are of runs with results replaced
        if missing and side.reused:
            raise Outdated(side.side)
        self.lost.update(missing)
        return found

    def remarks(self) -> list[str]:
        """What could not be watched in float64, or not be tried as runs do other operations."""
        said = []
        for side, capture in (("reference", self.reference), ("candidate", self.candidate)):
            failed = {reason: None for run, reason in runs_of(capture).failed.items() if Pass.of(run).precision == DOUBLE}
            said += [
                f"operations of the {side} could not be watched in float64: {reason}; they are compared as they are computed natively, "
                "where rounding hides what is small, and the line that is named may be that of a whole module"
                for reason in failed
            ]
        if self.lost:
            said.append(
                f"{len(self.lost)} values could not be had again: the model does other operations, or makes other values, in each run"
            )
        if self.other_ways:
            said.append(
                f"{self.other_ways} experiments were not made: the candidate does other operations, or makes other values, in each run"
            )
        return said


def _bytes(value: Value) -> int:
    """The size of a whole value, known by its record."""
    return value.size * np.dtype(STORAGE[value.record.dtype]).itemsize if value.record.dtype in STORAGE else 0


def _constants(recorder: Recorder, given: dict[str, Capture]) -> Capture | None:
    """How a side comes to its numbers; None for a model that cannot be built twice."""
    try:
        return recorder.record("constants", Constants(), {"inputs": given["inputs"]})
    except WorkerFailed:
        return None
