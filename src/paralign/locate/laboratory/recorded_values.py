"""Values of a recorded run, whole, from another run: found by what they hold."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.capture import digest as digests
from paralign.locate.runs.dataflow import WRITTEN, Graph
from paralign.worker.protocol import runs_of
from paralign.worker.sides.session import DOUBLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from paralign.capture import Capture
    from paralign.dtypes import Typed
    from paralign.locate.runs.dataflow import Operation, Value
    from paralign.model import Record

    Place = tuple[int, int | str]
    #: what a value is, whatever it holds: role, operation, module, place among the results, shape, line
    Kind = tuple[Any, ...]

#: greatest distance of the digests of one value in two runs of one side, which differ by the order of sums at most:
#: rounding of float64, and of the native precisions
SAME, SAME_NATIVELY = 1e-9, 1e-5

#: runs that are asked for: one by the numbers of the recorded run, and one by the numbers of that run where they differ
ATTEMPTS = 2


def where(value: Value) -> Place:
    """Where a value stands in its run: the operation's number and the place among its results."""
    if value.maker is None:
        return (-1, value.record.name)
    return (value.maker.number, WRITTEN if value.maker.written else value.place)


def fetch(
    wanted: Sequence[Value],
    run: str,
    record: Callable[[list[Place]], Capture],
    *,
    besides: Sequence[Value] = (),
    gradients: bool = False,
) -> dict[Value, Typed]:
    """Values, or their gradients, from new runs of the side.

    Only those that a new run makes again.

    A model that fills a cache or counts its calls does other operations in a new process: the numbers of operations are then others,
    and some values are not made at all.

    Args:
        wanted: values of the recorded run.
        run: which pass.
        record: runs the side again and keeps the values (or gradients) at the places it is given.
        besides: values that are kept in the first run too; no other run is made for them.
        gradients: whether the gradients are wanted.
    """
    found: dict[Value, Typed] = {}
    asked = {value: where(value) for value in [*wanted, *besides]}
    for _ in range(ATTEMPTS):
        capture = record(sorted(set(asked.values()), key=str))
        if run not in runs_of(capture).runs:
            break
        again = _Run(Graph(capture, run), gradients=gradients)
        kept = {value: other for value in asked if (other := again.counterpart(value, kept=True)) is not None}
        found.update({value: capture.value(again.held(other)) for value, other in kept.items()})
        moved = {value: again.counterpart(value, kept=False) for value in wanted if value not in found}
        asked = {value: where(other) for value, other in moved.items() if other is not None}
        if not asked:
            break
    return found


def made_again(values: Sequence[Value], graph: Graph) -> set[Value]:
    """Those of some values that another run makes too."""
    if not values:
        return set()
    run = _Run(graph, gradients=False)
    return {value for value in values if run.counterpart(value, kept=False) is not None}


def repeated(recorded: Graph, again: Graph, until: int) -> bool:
    """Whether a run did what the recorded one did, up to operation number ``until``."""
    pairs = [[o for o in graph.operations if o.number < until] for graph in (recorded, again)]
    if len(pairs[0]) != len(pairs[1]):
        return False
    tolerance = SAME if recorded.run == DOUBLE else SAME_NATIVELY
    return all(_same_operation(one, other, tolerance) for one, other in zip(*pairs, strict=True))


def _same_operation(one: Operation, other: Operation, tolerance: float) -> bool:
    if (one.number, one.op, one.module, one.written, len(one.outputs)) != (
        other.number,
        other.op,
        other.module,
        other.written,
        len(other.outputs),
    ):
        return False
    # what nothing takes may be memory that nobody wrote to, as the statistics that Paddle's batch_norm returns in eval mode
    taken = [(v, w) for n, (v, w) in enumerate(zip(one.outputs, other.outputs, strict=True)) if n == 0 or v.users]
    return all(v.shape == w.shape and _agree(v.digest, w.digest, tolerance) for v, w in taken)


class _Run:
    """The values of a new run, to be found by what they hold."""

    def __init__(self, graph: Graph, *, gradients: bool) -> None:
        self._gradients = gradients
        self._tolerance = SAME if graph.run == DOUBLE else SAME_NATIVELY
        self._values: dict[Kind, list[Value]] = defaultdict(list)
        for value in dict.fromkeys(graph.values.values()):
            self._values[_kind(value)].append(value)

    def held(self, value: Value) -> Record:
        """The record that holds what is wanted of a value."""
        if not self._gradients:
            return value.record
        if value.gradient is None:
            raise ValueError("a value without a gradient is no counterpart where gradients are wanted")
        return value.gradient

    def counterpart(self, value: Value, *, kept: bool) -> Value | None:
        """The new run's value that holds the same, at the same place if possible."""
        same = [other for other in self._values.get(_kind(value), ()) if self._is_same(value, other)]
        if kept:
            same = [other for other in same if self.held(other).location is not None]
        return min(same, key=lambda other: (where(other) != where(value), _distance_in_order(value, other)), default=None)

    def _is_same(self, one: Value, other: Value) -> bool:
        if not _agree(one.digest, other.digest, self._tolerance) or not self._alike(one.sketch, other.sketch):
            return False
        if not self._gradients:
            return True
        if one.gradient is None or other.gradient is None:
            return False
        return _agree(one.gradient.digest, other.gradient.digest, self._tolerance) and self._alike(
            one.gradient_sketch, other.gradient_sketch
        )

    def _alike(self, one: Any, other: Any) -> bool:
        """Whether two sketches are of the same values in the same order; True without one."""
        if one is None or other is None:
            return one is other
        first, second = (np.asarray(sketch, dtype=np.float64) for sketch in (one, other))
        if first.shape != second.shape:
            return False
        size = float(np.abs(first).max(initial=0.0))
        return bool(np.allclose(first, second, rtol=self._tolerance, atol=self._tolerance * size, equal_nan=True))


def _kind(value: Value) -> Kind:
    record = value.record
    return (record.role, record.op, record.name, record.leaf, record.dtype, record.shape, record.source)


def _distance_in_order(one: Value, other: Value) -> int:
    return abs(where(one)[0] - where(other)[0])


def _agree(one: str | None, other: str | None, tolerance: float) -> bool:
    """Whether two digests are of the same values; unreadable ones are not."""
    if one is None or other is None:
        return one is other
    return one == other or digests.distance(one, other) <= tolerance


def lost(wanted: Iterable[Value], found: dict[Value, Typed]) -> list[Value]:
    """The values that a new run does not make again, of those that can be known again."""
    return [value for value in wanted if value not in found and value.digest is not None]
