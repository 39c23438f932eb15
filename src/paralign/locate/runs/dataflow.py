"""The operations of one run as a graph: what made each value, of what, at which line."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.capture import digest as digests
from paralign.locate.source.call_arguments import is_number
from paralign.worker.protocol import watched_pass

if TYPE_CHECKING:
    from paralign.capture import Capture
    from paralign.model import Record


#: the leaf of a value that an operation changed besides its results
WRITTEN = "written"


@dataclass(eq=False)
class Value:
    """One value; ``maker`` is None for what was given: parameters, buffers, inputs, constants."""

    record: Record
    maker: Operation | None = None
    place: int = 0
    users: list[Operation] = field(default_factory=list)
    sketch: Any = None
    gradient: Record | None = None
    gradient_sketch: Any = None

    @property
    def digest(self) -> str | None:
        """Of its elements in any order; None for what cannot be read."""
        return self.record.digest

    @property
    def is_parameter(self) -> bool:
        """Whether it is a parameter of the model."""
        return self.record.role == "parameter"

    @property
    def is_constant(self) -> bool:
        """Whether all its elements are one number."""
        return self.digest is not None and self.digest.startswith("c1:")

    @property
    def gradient_digest(self) -> str | None:
        """The digest of its gradient; None without one, or where it cannot be read."""
        return None if self.gradient is None else self.gradient.digest

    @property
    def bounded(self) -> float | None:
        """The mean of its elements' bounded moduli; known where some are very large."""
        found = self.record.attrs.get("bounded")
        return None if found is None else float(found)

    @property
    def unmasked(self) -> str | None:
        """The digest of what is not masked, with zero for the rest; None where nothing is masked."""
        found = self.record.attrs.get("unmasked")
        return None if found is None else str(found)

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return self.record.shape

    @property
    def size(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)

    @property
    def order(self) -> int:
        """When it was first seen."""
        return self.record.id


@dataclass(eq=False)
class Operation:
    """One operation; what its call changed besides the results is ``written``."""

    number: int
    op: str
    kind: str
    module: str
    stack: tuple[str, ...]
    arguments: dict[str, Any]
    random: bool
    inputs: list[Value]
    outputs: list[Value] = field(default_factory=list)
    written: bool = False

    @property
    def order(self) -> int:
        """When it was done."""
        return self.outputs[0].order

    @property
    def source(self) -> str | None:
        """The user's innermost line."""
        return self.stack[0] if self.stack else None

    @property
    def takes_parameter(self) -> bool:
        """Whether one of its inputs is a parameter of the model."""
        return any(value.is_parameter for value in self.inputs)

    @property
    def numbers(self) -> list[float]:
        """The numbers among its arguments, in ascending order; those in lists are left out."""
        return sorted(float(a) for a in self.arguments.values() if is_number(a))


class Graph:
    """One pass of one side.

    Args:
        capture: made by the task ``operations``.
        run: which of its passes.
    """

    def __init__(self, capture: Capture, run: str) -> None:
        self.capture, self.run = capture, run
        self.values: dict[int, Value] = {}
        self.operations: list[Operation] = []
        #: (operation, place) -> digest of what an operation made before it was replaced
        self.made: dict[tuple[int, int], str] = {}
        said = watched_pass(capture, run)
        self.built, self.kinds, self.random, self.frozen = said.built, said.kinds, said.random, said.frozen
        self.rewritten = set(said.rewritten)
        self._read([record for record in capture.records if record.run == run])
        self.hooked = set(said.hooked)
        self.outputs: dict[str, Value] = {path: self.values[number] for path, number in said.outputs.items()}
        self.loss: Value | None = next((self.values[number] for number in said.loss.values()), None)

    def _read(self, records: list[Record]) -> None:
        made: dict[tuple[int, str], Operation] = {}
        known: dict[tuple[str | None, tuple[int, ...]], Value] = {}
        for record in records:
            if record.role == "gradient":
                self._add_gradient(record)
            elif self._is_handed_on(record) and (record.digest, record.shape) in known:
                self.values[record.id] = known[record.digest, record.shape]  # what was not watched has handed it on
            elif "operation" in record.attrs and record.role != "sample":
                value = self.values[record.id] = Value(record)
                if record.attrs["operation"] != "given":
                    self._add_result(record, value, made)
                    known[record.digest, record.shape] = value
        for record in records:
            if record.name == "sketches" and record.role == "state":
                self._add_sketches(record)

    def _is_handed_on(self, record: Record) -> bool:
        """Whether a value came from nowhere watched, and can be known by its digest."""
        if record.role != "input" or record.name or record.attrs.get("operation") != "given":
            return False
        return record.digest is not None and digests.is_evidence(record.digest)

    def _add_gradient(self, record: Record) -> None:
        if record.inputs and record.inputs[0] in self.values:
            self.values[record.inputs[0]].gradient = record

    def _add_result(self, record: Record, value: Value, made: dict[tuple[int, str], Operation]) -> None:
        written = record.leaf == WRITTEN
        key = (record.call, str(record.id) if written else "")
        operation = made.get(key)
        if operation is None:
            lines = ((record.source,) if record.source else ()) + tuple(record.attrs.get("stack", ()))
            stack = tuple(line for line, _ in groupby(lines))  # a generator runs in the line that it is written in
            operation = made[key] = Operation(
                record.call,
                record.op,
                record.attrs["operation"],
                record.name,
                stack,
                record.attrs.get("arguments", {}),
                bool(record.attrs.get("random")),
                [self.values[number] for number in record.inputs if number in self.values],
                written=written,
            )
            self.operations.append(operation)
            for taken in operation.inputs:
                if operation not in taken.users:
                    taken.users.append(operation)
        value.maker, value.place = operation, len(operation.outputs)
        made_before = record.attrs.get("made")
        if made_before and made_before[value.place]:
            self.made[operation.number, value.place] = made_before[value.place]
        operation.outputs.append(value)

    def _add_sketches(self, record: Record) -> None:
        table = self.capture.array(record)
        gradients = {v.gradient.id: v for v in self.values.values() if v.gradient is not None}
        for row, number in enumerate(record.attrs["records"]):
            if number in self.values:
                self.values[number].sketch = np.asarray(table[row])
            elif number in gradients:
                gradients[number].gradient_sketch = np.asarray(table[row])

    def numbered(self, number: int) -> Operation | None:
        """The operation of a number, not what its call changed besides; None without one."""
        for operation in self.operations:
            if operation.number == number and not operation.written:
                return operation
        return None

    def same_operations(self, other: Graph) -> dict[int, int]:
        """This pass's operations -> the same ones in another pass of this side, by number."""
        return _counterparts(self.operations, other.operations)

    def noise_of(self, other: Graph) -> dict[int, Record]:
        """The records of another pass, by the records of this one at the same place.

        A model that fills a cache in its first pass does other operations in the next: only those that both do are paired.
        """
        numbers = self.same_operations(other)
        places = {_place(v, v.record.call): v.record for v in other.values.values()}
        found = {}
        for number, value in self.values.items():
            call = -1 if value.maker is None else numbers.get(value.record.call)
            if call is None:
                continue
            record = places.get(_place(value, call))
            if record is not None:
                found[number] = record
        return found


def _counterparts(ours: list[Operation], theirs: list[Operation]) -> dict[int, int]:
    """Operations of one pass -> the same operations of another pass of that side."""
    one, two = ([(o.op, o.module, o.source, o.written) for o in operations] for operations in (ours, theirs))
    first, second = ([o.number for o in operations] for operations in (ours, theirs))
    if one == two:
        return dict(zip(first, second, strict=True))
    blocks = SequenceMatcher(None, one, two, autojunk=False).get_matching_blocks()
    return {first[block.a + i]: second[block.b + i] for block in blocks for i in range(block.size)}


def _place(value: Value, call: int) -> tuple[Any, ...]:
    record = value.record
    return (record.role, record.name, call if value.maker else -1, record.leaf, record.op, record.shape)
