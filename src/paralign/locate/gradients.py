"""Where the gradients of two runs part: operations whose incoming gradient matches and whose outgoing gradient does not.

The values of the forward pass say which gradients belong together. The search starts from wrong gradients of parameters and follows
the values towards the loss for as long as their gradients are wrong or not comparable.
"""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from paralign.adapters._kinds import MOVES
from paralign.capture import digest as digests
from paralign.dtypes import Typed
from paralign.locate.matching import is_telling
from paralign.locate.replay import arranged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paralign.locate.graph import Graph, Operation, Value
    from paralign.locate.judgement import Judgement

#: gradients may differ by this share at least, and by the reference's own noise up to this share at most
LEAST, MOST = 5e-6, 1e-3

#: a gradient of which the reference itself knows less is not judged
UNKNOWN = 0.1

#: two gradients are multiples of each other when nothing but their size differs by more than this
MULTIPLE = 1e-5

#: gradients of this share of the largest of a parameter are rounding, as that of a key's bias before a softmax is
VANISHING = 1e-11

DIFFERENT, FACTOR, DETACHED, FROZEN, ABSENT = "gradient", "factor", "detached", "frozen", "no gradient"


@dataclass(frozen=True)
class GradientPatch:
    """A gradient to be put in place of what the candidate's backward pass brings to a value."""

    number: int
    place: int | str
    value: Typed


class Laboratory(Protocol):
    """What runs the two sides again, with a backward pass."""

    def backward(self, gradients: Sequence[GradientPatch], undo: Sequence[int]) -> Graph | None:
        """The candidate's run with gradients replaced, and operations made to hand on their input; None where it fails."""

    def gradients(self, wanted: Sequence[Value]) -> list[Typed]:
        """The gradients of values of the reference's run, whole."""


@dataclass(eq=False)
class Fault:
    """A wrong gradient with right gradients before it.

    ``value`` is the candidate's value whose gradient is wrong, ``due`` the reference's; ``operation`` is the candidate's operation at
    fault, None for a frozen parameter. ``factor`` is the candidate's gradient as a multiple of the reference's, where it is one.
    """

    what: str
    value: Value
    due: Value
    operation: Operation | None
    error: float
    factor: float | None = None
    confirmed: bool = False
    wrong_before: int = 0
    wrong_after: int | None = None


class Gradients:
    """The gradients of a candidate's run, judged.

    Args:
        judgement: of the values of the forward pass.
        noise: number of a reference record -> how far the reference's gradient there is from itself.
        names: the candidate's parameters -> the reference's, where one became one.
    """

    def __init__(self, judgement: Judgement, noise: dict[int, float], names: dict[str, str]) -> None:
        self.judgement, self.noise = judgement, noise
        self._names = names
        given = {v.record.name: v for v in judgement.reference.values.values() if v.maker is None and v.record.role == "parameter"}
        self._parameters = given
        self._status: dict[Value, tuple[float | None, Value | None]] = {}
        self._useful = _ancestors(judgement.candidate.loss)
        sizes = [_rms(v) for v in given.values()]
        self._nothing = VANISHING * max(sizes, default=0.0)

    def status(self, value: Value) -> tuple[float | None, Value | None]:
        """How far a value's gradient is from the reference's (infinite where it is missing), and the reference's value.

        0 for what is within noise, None where there is nothing to compare it with.
        """
        if value not in self._status:
            self._status[value] = self._compare(value)
        return self._status[value]

    def _compare(self, value: Value) -> tuple[float | None, Value | None]:
        partners = [p for p in self._partners(value) if p.gradient is not None and p.gradient.digest is not None]
        if partners and max(_rms(v) for v in (value, *partners)) <= self._nothing:
            return 0.0, partners[0]
        known = [p for p in partners if self.noise.get(p.record.id, 0.0) < UNKNOWN]
        if not partners:
            return None, None
        if not known:
            return 0.0, partners[0]
        if value.gradient is None or value.gradient.digest is None:
            zero = all(_rms(p) == 0.0 for p in known)
            return (0.0 if zero else math.inf), known[0]
        mine = value.gradient.digest
        far, partner = min(
            ((digests.distance(p.gradient.digest or "", mine), p) for p in known if p.gradient is not None), key=lambda item: item[0]
        )
        allowed = max(LEAST, min(MOST, self.noise.get(partner.record.id, 0.0)))
        return (0.0 if far <= allowed else far), partner

    def _partners(self, value: Value) -> list[Value]:
        if value.maker is None and value.record.role == "parameter":
            twin = self._parameters.get(self._names.get(value.record.name, ""))
            if twin is None and is_telling(value):  # taken apart or put together: by its values
                same = [p for p in self.judgement.partners(value) if p.record.role == "parameter"]
                twin = same[0] if len(same) == 1 else None
            return [twin] if twin is not None else []
        if not self.judgement.is_right(value) or not is_telling(value):
            return []
        return [p for p in self.judgement.partners(value) if p.record.role != "parameter"]

    def wrong_parameters(self) -> list[Value]:
        """The parameters whose gradients are wrong or missing."""
        given = [v for v in self.judgement.candidate.values.values() if v.maker is None and v.record.role == "parameter"]
        return [v for v in given if self.status(v)[0]]

    def faults(self) -> list[Fault]:
        """Every wrong gradient with right gradients before it, the nearest to the loss first."""
        found: dict[Value, Fault] = {}
        seen: set[Value] = set()
        todo = list(self.wrong_parameters())
        while todo:
            value = todo.pop()
            if value in seen:
                continue
            seen.add(value)
            worse = [o for user in value.users for o in user.outputs if o in self._useful and self.status(o)[0] != 0.0]
            todo += worse
            far, due = self.status(value)
            if far and due is not None and not any(self._leads_on(o) for o in worse):
                found[value] = self._fault(value, due, far)
        return sorted(found.values(), key=lambda fault: -fault.value.order)

    def _leads_on(self, value: Value) -> bool:
        """Whether on the way to the loss there is another wrong gradient, through what cannot be compared."""
        seen: set[Value] = set()
        todo = [value]
        while todo:
            item = todo.pop()
            if item in seen:
                continue
            seen.add(item)
            far = self.status(item)[0]
            if far:
                return True
            if far is None:
                todo += [o for user in item.users for o in user.outputs if o in self._useful]
        return False

    def _fault(self, value: Value, due: Value, far: float) -> Fault:
        graph = self.judgement.candidate
        if value.record.name in graph.frozen and value.maker is None:
            return Fault(FROZEN, value, due, None, far)
        users = [user for user in value.users if any(o in self._useful for o in user.outputs)]
        if value.gradient is None:
            stopped = value.record.id not in graph.hooked
            maker = value.maker if stopped or not users else None
            return Fault(DETACHED if maker else ABSENT, value, due, maker or (users[0] if users else None), far)
        factor = _factor(due, value)
        return Fault(FACTOR if factor is not None else DIFFERENT, value, due, self._guilty(users), far, factor)

    def _guilty(self, users: list[Operation]) -> Operation | None:
        """Of several operations that a gradient comes from, the likeliest: one that the reference does in another way."""
        computing = [u for u in users if u.kind not in MOVES] or users
        strange = [u for u in computing if (t := self.judgement.twin(u)) is None or t.kind != u.kind]
        likeliest = strange or computing
        return likeliest[-1] if likeliest else None


def _rms(value: Value) -> float:
    """The root mean square of a value's gradient, 0 without one."""
    digest = value.gradient.digest if value.gradient is not None else None
    return digests.size_and_rms(digest)[1] if digest is not None else 0.0


def _ancestors(value: Value | None) -> set[Value]:
    found: set[Value] = set()
    todo = [value] if value is not None else []
    while todo:
        item = todo.pop()
        if item not in found:
            found.add(item)
            if item.maker is not None:
                todo += item.maker.inputs
    return found


def _factor(due: Value, value: Value) -> float | None:
    """The number by which the reference's gradient is multiplied, where that is all; None where it is not."""
    if due.gradient is None or value.gradient is None:
        return None
    ours, theirs = digests.figures(due.gradient.digest or ""), digests.figures(value.gradient.digest or "")
    if ours.size != theirs.size or ours.rms == 0 or theirs.rms == 0:
        return None
    turned = theirs._replace(mean=-theirs.mean, low=-theirs.high, high=-theirs.low)
    for sign, other in ((1.0, theirs), (-1.0, turned)):
        if all(abs(a - b) <= MULTIPLE * max(1.0, abs(a)) for a, b in zip(ours.moments(), other.moments(), strict=True)):
            return sign * theirs.rms / ours.rms
    return None


def proven(laboratory: Laboratory, gradients: Gradients, judge: object, most: int = 8) -> list[Fault]:
    """All independent faults, each confirmed by a backward pass with the reference's gradient in its place.

    Args:
        laboratory: runs the sides again.
        gradients: of the candidate's run as it is.
        judge: makes :class:`Gradients` of another run of the candidate.
        most: faults that are looked for.
    """
    found: list[Fault] = []
    patches: list[GradientPatch] = []
    undo: list[int] = []
    seen: set[tuple[int, int | str]] = set()
    current = gradients
    while len(found) < most:
        fresh = [fault for fault in current.faults() if _where(fault.value) not in seen]
        if not fresh:
            break
        for fault in fresh[: most - len(found)]:
            seen.add(_where(fault.value))
            found.append(fault)
            fault.wrong_before = len(current.wrong_parameters())
            if fault.operation is not None and fault.what == DETACHED and fault.operation.kind == "copy":
                undo.append(fault.operation.number)
            elif fault.value.gradient is not None:
                patches.append(_patch(fault, laboratory))
        graph = laboratory.backward(patches, undo)
        after = judge(graph) if graph is not None and callable(judge) else None
        if after is None:
            break
        left = len(after.wrong_parameters())
        for fault in fresh:
            fault.wrong_after = left
            fault.confirmed = left < fault.wrong_before
        current = after
    return found


def _patch(fault: Fault, laboratory: Laboratory) -> GradientPatch:
    given = laboratory.gradients([fault.due])[0]
    number, place = _where(fault.value)
    return GradientPatch(number, place, Typed(arranged(given.array, fault.value.shape), given.dtype))


def _where(value: Value) -> tuple[int, int | str]:
    return (-1, value.record.name) if value.maker is None else (value.maker.number, value.place)


@lru_cache(maxsize=64)
def custom_backward(source: str) -> str | None:
    """The line that returns the gradient in the ``backward`` of the class that a line belongs to; None where there is none."""
    file, _, line = source.rpartition(":")
    try:
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.lineno <= int(line) <= (node.end_lineno or 0):
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and method.name == "backward":
                    returns = [n.lineno for n in ast.walk(method) if isinstance(n, ast.Return)]
                    return f"{file}:{max(returns, default=method.lineno)}"
    return None
