"""The module calls of one run, as a tree."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from paralign.locate.runs.value_index import Values
from paralign.weights.layouts import layer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from paralign.model import Record


@dataclass(eq=False)
class Call:
    """One call of one module.

    ``kind`` is neutral (the same for both frameworks), '' for a module of the user's own. ``order`` is the place in order of
    completion; ``start`` the order of the first call that was completed inside it (its own where there is none).
    """

    name: str
    number: int
    op: str
    kind: str
    depth: int
    source: str | None
    order: int = 0
    start: int = 0
    inputs: list[Record] = field(default_factory=list)
    outputs: list[Record] = field(default_factory=list)
    children: list[Call] = field(default_factory=list)
    parent: Call | None = None

    @property
    def consumed(self) -> list[str]:
        """Digests of the inputs that have one."""
        return [r.digest for r in self.inputs if r.digest is not None]

    @property
    def made(self) -> list[str]:
        """Digests of the outputs that have one."""
        return [r.digest for r in self.outputs if r.digest is not None]


class Trace:
    """All module calls of one run in order of completion; who made and took each value."""

    def __init__(self, records: Iterable[Record], tolerance: float) -> None:
        self.calls = _calls(records)
        self.roots = _nest(self.calls)
        self.made: Values[Call] = Values(tolerance)
        self.consumed: Values[Call] = Values(tolerance)
        self.named = {(c.name, c.number, _moment(c)): c for c in self.calls}
        for call in self.calls:
            for digest in call.made:
                self.made.add(digest, call)
            for digest in call.consumed:
                self.consumed.add(digest, call)

    def namesake(self, call: Call) -> Call | None:
        """The call of the same name and number at the same step, of a trace of the other side."""
        return self.named.get((call.name, call.number, _moment(call)))

    def holds(self, digest: str) -> bool:
        """Whether any call made or consumed this value."""
        return digest in self.made or digest in self.consumed


def _moment(call: Call) -> tuple[int, int]:
    record = (call.outputs or call.inputs)[0]
    return record.step, record.rank


def _calls(records: Iterable[Record]) -> list[Call]:
    found: dict[tuple[int, int, str, int], Call] = {}
    for record in records:
        if not record.attrs.get("module") or record.role not in ("input", "output"):
            continue
        identity = (record.step, record.rank, record.name, record.call)
        call = found.get(identity)
        if call is None:
            kind = layer(record.attrs.get("kind") or "")
            call = Call(record.name, record.call, record.op, kind, record.attrs.get("depth", 0), record.source)
            found[identity] = call
        (call.inputs if record.role == "input" else call.outputs).append(record)
    return list(found.values())


def _nest(calls: list[Call]) -> list[Call]:
    """Hang every call below the one that it was made in; return the outermost."""
    waiting: list[Call] = []
    for order, call in enumerate(calls):
        call.order = call.start = order
        first = len(waiting)
        while first and waiting[first - 1].depth > call.depth:
            first -= 1
        call.children = waiting[first:]
        del waiting[first:]
        for child in call.children:
            child.parent = call
        if call.children:
            call.start = call.children[0].start
        waiting.append(call)
    return waiting
