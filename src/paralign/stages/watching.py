"""Both sides watched operation by operation: what was recorded, and a laboratory for experiments on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paralign.capture import Capture, CaptureWriter, discard
from paralign.capture import digest as digests
from paralign.errors import WorkerFailed
from paralign.locate import constants
from paralign.locate.gradients import GradientPatch, Gradients
from paralign.locate.graph import Graph
from paralign.locate.judgement import Judgement, Scale
from paralign.model import Manifest
from paralign.run.recorder import both
from paralign.worker.session import DOUBLE, NATIVE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    from paralign.dtypes import Typed
    from paralign.locate.graph import Value
    from paralign.locate.replay import Patch
    from paralign.run.recorder import Recorder
    from paralign.stages.context import Context

#: the captures of the forward pass
OPERATIONS = "operations"

#: how errors are judged where both sides run natively: rounding of float32 is everywhere
COARSE = Scale(equal=2e-5, floor=2e-6, own=10.0)

#: and where outputs differ in float64 although no single operation does by more than its noise: many small errors add up
FINE = Scale(floor=2.0**-24, thorough=True)


class Recorded:
    """Two captures of operations, one pass of each, to be judged."""

    def __init__(self, reference: Capture, candidate: Capture) -> None:
        self.reference, self.candidate = reference, candidate
        runs = [set(capture.manifest.settings["answer"]["runs"]) for capture in (reference, candidate)]
        self.run_name = DOUBLE if DOUBLE in runs[0] & runs[1] else NATIVE
        self._other = NATIVE if self.run_name == DOUBLE else DOUBLE
        self._graph = Graph(reference, self.run_name)
        self._again = Graph(reference, self._other) if self._other in runs[0] else None

    def judgement(self, graph: Graph | None = None, *, fine: bool = False) -> Judgement:
        """The candidate's run, or another run of it; ``fine``: an operation is granted no more than the rounding of one constant."""
        scale = COARSE if self.run_name != DOUBLE else FINE if fine else Scale()
        homes = {reference: candidate for candidate, reference in self._names().items()}
        return Judgement(self._graph, graph or Graph(self.candidate, self.run_name), self._noise(), scale, homes=homes)

    def judged_gradients(self, graph: Graph | None = None) -> Gradients:
        """The gradients of the candidate's run, or of another run of it."""
        return Gradients(self.judgement(graph), self._gradient_noise(), self._names())

    def _names(self) -> dict[str, str]:
        """The candidate's parameters -> the reference's, as far as names tell."""
        return {v.record.name: v.record.name for v in self._graph.values.values() if v.record.role == "parameter"}

    def _noise(self) -> dict[int, float]:
        """How far the reference's native run is from its float64 run, value by value."""
        return self._distances(lambda value: value.digest)

    def _gradient_noise(self) -> dict[int, float]:
        return self._distances(lambda value: value.gradient.digest if value.gradient is not None else None)

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
    """Both sides' operations of one pass, recorded now by the task ``task``; a laboratory for experiments on it."""

    task = OPERATIONS

    def __init__(
        self,
        context: Context,
        options: dict[str, Any],
        values: dict[str, Capture],
        name: str = OPERATIONS,
        captures: tuple[Capture, Capture] | None = None,
    ) -> None:
        self.context, self.options, self.given, self.name = context, options, values, name
        self._attempts = 0
        runs = {**options, "runs": [DOUBLE, NATIVE]}
        super().__init__(
            *captures
            or both(
                lambda: context.reference.record(name, self.task, runs, values),
                lambda: context.candidate.record(name, self.task, runs, values),
            )
        )

    def _names(self) -> dict[str, str]:
        """The candidate's parameters -> the reference's, where one became one."""
        plan, found = self.context.plan, {}
        for source in plan.sources if plan is not None else []:
            moves = plan.moves_of(source.name) if plan is not None else []
            if len(moves) == 1 and moves[0].candidate is not None:
                found[moves[0].candidate.name] = source.name
        return found

    def origin(self, digests_of: Sequence[str], certain: bool) -> str | None:
        """The candidate's line that makes one of some given values of numbers alone, which the reference makes otherwise."""
        sides = [_constants(recorder, self.given) for recorder in (self.context.reference, self.context.candidate)]
        return None if sides[0] is None or sides[1] is None else constants.culprit(sides[0], sides[1], digests_of, certain=certain)

    def number_line(self, source: str, number: float) -> str | None:
        """The candidate's line from which a number came that a line reads by a name."""
        found = _constants(self.context.candidate, self.given)
        return None if found is None else constants.number_line(found, source, number)

    def numbers(self) -> list[np.ndarray]:
        """What the reference makes of numbers alone."""
        found = _constants(self.context.reference, self.given)
        return [] if found is None else constants.values(found)

    def run(self, patches: Sequence[Patch]) -> Graph | None:
        """The candidate's run with some results replaced; None where it fails with them."""
        return self._repeat(self._write(patches), {})

    def backward(self, gradients: Sequence[GradientPatch], undo: Sequence[int]) -> Graph | None:
        """The candidate's run with gradients replaced, and operations made to hand on their input; None where it fails."""
        return self._repeat(self._write((), gradients), {"undo": list(undo)})

    def _repeat(self, patches: Capture, options: dict[str, Any]) -> Graph | None:
        options = {**self.options, **options, "runs": [self.run_name], "attempt": self._attempts}
        try:
            capture = self.context.candidate.record(f"{self.name}-replayed", self.task, options, {**self.given, "patches": patches})
        except WorkerFailed:
            return None
        return Graph(capture, self.run_name) if self.run_name in capture.manifest.settings["answer"]["runs"] else None

    def _write(self, patches: Sequence[Patch], gradients: Sequence[GradientPatch] = ()) -> Capture:
        self._attempts += 1
        folder = self.context.candidate.folder / f"{self.name}-patches"
        if folder.exists():
            discard(folder)
        with CaptureWriter(folder, Manifest(side="candidate", stage="patches", settings={"key": f"patches {self._attempts}"})) as writer:
            for patch in patches:
                writer.add(f"{patch.number}:{patch.place}", patch.value, role="output", op=patch.op, attrs={"made": list(patch.shape)})
            for gradient in gradients:
                writer.add(f"gradient {gradient.number}:{gradient.place}", gradient.value, role="gradient")
        return Capture.open(folder)

    def values(self, wanted: Sequence[Value], *, own: bool = False) -> list[Typed]:
        """The values of the reference's run, whole; ``own``: of the candidate's."""
        if not wanted:
            return []
        options = {**self.options, "runs": [self.run_name], "keep": [list(place) for place in sorted({_where(v) for v in wanted})]}
        side = self.context.candidate if own else self.context.reference
        capture = side.record(f"{self.name}-values", self.task, options, self.given)
        found = {}
        for record in capture.records:
            if record.location is not None and "operation" in record.attrs:
                place = (-1, record.name) if record.attrs["operation"] == "given" else (record.call, int(record.leaf or 0))
                found[place] = capture.value(record)
        return [found[_where(value)] for value in wanted]

    def gradients(self, wanted: Sequence[Value]) -> list[Typed]:
        """The gradients of values of the reference's run, whole."""
        options = {**self.options, "runs": [self.run_name], "keep_gradients": sorted(list(_where(value)) for value in wanted)}
        capture = self.context.reference.record(f"{self.name}-values", self.task, options, self.given)
        graph = Graph(capture, self.run_name)
        found = {_where(v): v.gradient for v in graph.values.values() if v.gradient is not None and v.gradient.location is not None}
        return [capture.value(found[_where(value)]) for value in wanted]


def _constants(recorder: Recorder, given: dict[str, Capture]) -> Capture | None:
    """How a side comes to its numbers; None for a model that cannot be built twice."""
    try:
        return recorder.record("constants", "constants", {}, given)
    except WorkerFailed:
        return None


def _where(value: Value) -> tuple[int, Any]:
    return (-1, value.record.name) if value.maker is None else (value.maker.number, value.place)
