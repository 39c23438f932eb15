"""What one side alone computes without effect on these values: guards, small constants.

A guard (``nan_to_num``, a clamp by a tensor) hands on values that need none as they are, and a constant added to much larger numbers
is below their noise. A port without them, or with others, agrees; other weights and inputs would show it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

from paralign.adapters._kinds import MOVES
from paralign.capture import digest as digests
from paralign.dtypes import is_floating
from paralign.locate.runs.construction import line_or_name
from paralign.locate.runs.counterparts import is_telling
from paralign.locate.runs.traverse import makers, users_of
from paralign.locate.source.call_arguments import is_number
from paralign.locate.suspects import differing_constants
from paralign.locate.suspects.differing_constants import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from paralign.locate.runs.dataflow import Graph, Operation, Value
    from paralign.locate.runs.judgement import Judgement

#: kinds of operations that put other values in place of some, by a test
_GUARDS = frozenset({"nan_to_num", "where", "maximum", "minimum", "fmax", "fmin", "clip"})

#: kinds of them that do nothing to their first input without a second
_BY_OPERAND = frozenset({"where", "maximum", "minimum", "fmax", "fmin", "clip"})

#: names of arguments that ``nan_to_num`` puts in place of NaN; without one it puts 0
_NAN = frozenset({"nan", "1"})

#: numbers from here on stand for infinity, as a mask puts them
_ENDLESS = 1e4

#: a number is small beside values of at least its reciprocal times it, root mean square: four times the noise of float32 constants is
#: 1e-6, so that a larger share shows at the next operation but for logarithms, which divide it by about ten
_SMALL = 1e-5

#: the same of an epsilon within a layer, which the layer itself shows where it is larger
_SMALL_WITHIN = 1e-6

#: how many operations before and behind are searched for a constant's counterpart: a normalisation written by hand has about ten
_BEFORE, _BEHIND = 4, 12

#: how many operations past what both sides have behind it: a constant too small to show may be added before a slice or behind it
_PAST = 2

#: constants as near as float32 holds them are the same
_SAME = 1e-6


@dataclass
class OneSided:
    """Places in words: constants that ``differ``, and constants and guards of one side alone."""

    differing: list[str] = field(default_factory=list)
    constants: dict[str, list[str]] = field(default_factory=dict)
    guards: dict[str, list[str]] = field(default_factory=dict)

    @property
    def differ(self) -> str:
        """What is said of constants that differ; '' where none do."""
        if not self.differing:
            return ""
        return (
            f"constants differ at {len(self.differing)} places without effect on these values, so that nothing shows which are right: "
            f"{listed(self.differing)}. Use other inputs, or trained weights"
        )

    @property
    def notes(self) -> list[str]:
        """What is said of what one side alone has."""
        found = []
        for side, other in (("reference", "candidate"), ("candidate", "reference")):
            if small := self.constants.get(side):
                found.append(
                    f"constants of the {side} that are too small to show here, and that the {other} does not have, were not tested, at "
                    f"{len(small)} places: {listed(small)}"
                )
            if guards := self.guards.get(side):
                found.append(
                    f"operations of the {side} that changed no value here, and that the {other} does not have, were not tested, at "
                    f"{len(guards)} places: {listed(guards)}"
                )
        return found


@dataclass(frozen=True)
class _Side:
    """One side's run, and the other's values that its values are."""

    name: str
    graph: Graph
    partners: Callable[[Value], list[Value]]


@dataclass(frozen=True)
class _Small:
    """A constant that hardly changes what it is added to; ``within`` a layer."""

    operation: Operation
    name: str
    number: float
    within: bool


def one_sided(judgement: Judgement) -> OneSided:
    """The guards and small constants of either side that the other does not have.

    Args:
        judgement: of the runs that were compared.
    """
    found = OneSided()
    ours = _Side("candidate", judgement.candidate, lambda v: _references(judgement, v))
    theirs = _Side("reference", judgement.reference, lambda v: _candidates(judgement, v))
    _compare_constants(found, ours, theirs)
    for side, other in ((theirs, ours), (ours, theirs)):
        for operation in side.graph.operations:
            if _is_idle(operation):
                _compare_guard(found, side, other, operation)
    return found


def _references(judgement: Judgement, value: Value) -> list[Value]:
    """The reference's values that an established value of the candidate is."""
    if not judgement.is_established(value):
        return []
    return judgement.partners(value)


def _candidates(judgement: Judgement, value: Value) -> list[Value]:
    """The candidate's values that a value of the reference is."""
    if not is_telling(value):
        return []
    same = judgement.backwards.equals(value)
    if not same and not judgement.lacking(value):
        same = judgement.backwards.next_to(value)
    return [v for v in same if judgement.is_right(v)]


def _compare_constants(found: OneSided, ours: _Side, theirs: _Side) -> None:
    """Keep the small constants of either side that are not near the same place on the other."""
    alone = {side: _unanswered(side) for side in (theirs, ours)}
    paired: set[_Small] = set()
    for small in alone[ours]:
        others = _other_constants(small, ours, alone[theirs])
        if len({other.number for other in others}) != 1:
            continue
        if small.within and others[0].within:
            continue
        paired |= {small, *others}
        here, there = line_or_name(ours.graph, small.operation), line_or_name(theirs.graph, others[0].operation)
        place = f"{here} ({small.name} {small.number!r}, the reference {others[0].number!r} at {there})"
        if place not in found.differing:
            found.differing.append(place)
    for side in (theirs, ours):
        places = [f"{line_or_name(side.graph, s.operation)} ({s.name} {s.number!r})" for s in alone[side] if s not in paired]
        if places:
            found.constants[side.name] = list(dict.fromkeys(places))


def _unanswered(side: _Side) -> list[_Small]:
    """The small constants of a side that the other side does not have."""
    return [small for small in _all_small(side.graph) if not _is_answered(small, side)]


def _other_constants(small: _Small, side: _Side, others: list[_Small]) -> list[_Small]:
    """The other side's constants near the place of one that are no other form of it."""
    near = set(_near(small.operation, side))
    found: list[_Small] = []
    for other in others:
        if other.operation not in near or _is_rewritten(small.number, other.number):
            continue
        found.append(other)
    return found


def _all_small(graph: Graph) -> list[_Small]:
    """The constants of a run that are too small beside their values to show."""
    found = []
    for operation in graph.operations:
        small = _small(operation)
        if small is not None:
            found.append(small)
    return found


def _small(operation: Operation) -> _Small | None:
    """The constant of an operation that is too small to show, if it has one."""
    size = _size(operation)
    if size is None:
        return None
    told = differing_constants.of_operation(operation)
    if operation.kind in ("add", "subtract"):
        name, number, limit = f"{operation.kind} by", told.get(differing_constants.OPERAND), size * _SMALL
    else:
        name, number, limit = "epsilon", told.get("epsilon"), size * size * _SMALL_WITHIN
    if number is None or not _is_small(number, limit):
        return None
    return _Small(operation, name, number, within=name == "epsilon")


def _size(operation: Operation) -> float | None:
    """The greatest root mean square that an operation takes; None if it tells nothing."""
    if operation.random or not operation.inputs or not operation.outputs:
        return None
    if not is_floating(operation.outputs[0].record.dtype):
        return None
    values = [str(v.digest) for v in operation.inputs if v.digest is not None and not v.is_constant]
    return max((digests.size_and_rms(digest)[1] for digest in values), default=None)


def _is_small(number: Any, limit: float) -> bool:
    """Whether a constant is a number other than zero that does not exceed a limit."""
    if not is_number(number) or not math.isfinite(limit):
        return False
    return bool(0 < abs(number) <= limit)


def _is_answered(small: _Small, side: _Side) -> bool:
    """Whether the other side has the same number near the same place, in whatever operation."""
    near = _near(small.operation, side)
    if not near:
        return True  # no place to look at
    if small.within and small.operation.kind in {other.kind for other in near}:
        return True  # a layer of the same kind, whose constants are compared elsewhere
    return any(_is_same(small.number, number) for number in chain.from_iterable(map(_numbers, near)))


def _near(operation: Operation, side: _Side) -> list[Operation]:
    """The other side's operations around the place of an operation."""
    known, behind = _anchors(operation, side), _shared_behind(operation, side)
    starts = list(dict.fromkeys(p for value in known for p in side.partners(value)))
    found = _within(starts, _BEHIND, lambda v: v.users, lambda o: o.outputs, behind - set(starts))
    found += _within(list(behind), _PAST, lambda v: v.users, lambda o: o.outputs, set())
    found += _within(starts, _BEFORE, lambda v: makers([v]), lambda o: o.inputs, set())
    return list(dict.fromkeys(found))


def _anchors(operation: Operation, side: _Side) -> list[Value]:
    """The nearest values before an operation that both sides have."""
    found: list[Value] = []
    waiting, seen = list(operation.inputs), set(operation.inputs)
    for _ in range(_BEHIND):
        before: dict[Value, None] = {}
        for value in waiting:
            if side.partners(value):
                found.append(value)
            elif value.maker is not None:
                before.update(dict.fromkeys(value.maker.inputs))
        waiting = [v for v in before if v not in seen]
        seen |= set(waiting)
    return [v for v in found if not v.is_parameter] or found


def _shared_behind(operation: Operation, side: _Side) -> set[Value]:
    """The other side's values that follow from an operation, the nearest ones."""
    found: set[Value] = set()
    waiting, seen = list(operation.outputs), set(operation.outputs)
    same = {p for v in operation.inputs for p in side.partners(v)}
    for _ in range(_BEHIND):
        following = []
        for value in waiting:
            partners = [p for p in side.partners(value) if p not in same]
            found.update(partners)
            if not partners:
                following += [v for user in value.users for v in user.outputs]
        waiting = [v for v in dict.fromkeys(following) if v not in seen]
        seen |= set(waiting)
    return found


def _within(
    starts: list[Value],
    steps: int,
    operations: Callable[[Value], Iterable[Operation]],
    values: Callable[[Operation], Iterable[Value]],
    ends: set[Value],
) -> list[Operation]:
    """The operations within some steps of values, not followed past ``ends``."""
    found: dict[Operation, None] = {}
    waiting = starts
    for _ in range(steps):
        reached: dict[Operation, None] = {}
        for value in waiting:
            if value in ends:
                continue
            for operation in operations(value):
                if operation not in found:
                    reached[operation] = None
        found.update(reached)
        waiting = [v for o in reached for v in values(o)]
    return list(found)


def _numbers(operation: Operation) -> list[float]:
    """All numbers that an operation computes with, defaults and operands among them."""
    told = [float(n) for n in differing_constants.of_operation(operation).values() if is_number(n)]
    held = [digests.numbers(str(v.digest))[1] for v in operation.inputs if v.is_constant]
    return [*operation.numbers, *told, *held]


def _is_same(one: float, other: float) -> bool:
    """Whether two numbers are equal, or limits of element types."""
    if differing_constants.is_limit(one) and differing_constants.is_limit(other):  # each follows the precision of its run
        return True
    return math.isclose(abs(one), abs(other), rel_tol=_SAME)


def _is_rewritten(one: float, other: float) -> bool:
    """Whether a number may be the other in another form: times a size, or squared."""
    low, high = sorted((abs(one), abs(other)))
    times = high / low
    if not math.isfinite(times):
        return False
    is_whole = math.isclose(times, round(times), rel_tol=_SAME)
    if is_whole and round(times) % 10 != 0:
        return True
    return math.isclose(low, high * high, rel_tol=_SAME)


def _is_idle(operation: Operation) -> bool:
    """Whether a guard hands on its values as they are."""
    if operation.kind not in _GUARDS or len(operation.outputs) != 1:
        return False
    if operation.kind in _BY_OPERAND and not _others(operation) and not operation.numbers:
        return False
    if operation.kind == "clip" and len(operation.inputs) == 1:
        return False
    return _guarded(operation) is not None


def _guarded(operation: Operation) -> Value | None:
    """What a guard hands on as it is; None where it changes something."""
    made = operation.outputs[0]
    if made.digest is None or made.is_constant or not is_floating(made.record.dtype):
        return None
    same = [v for v in operation.inputs if (v.digest, v.shape) == (made.digest, made.shape)]
    return same[0] if len(same) == 1 else None


def _others(operation: Operation) -> list[Value]:
    """What a guard would put in place."""
    guarded = _guarded(operation)
    return [v for v in operation.inputs if v is not guarded and v.record.dtype != "bool"]


def _compare_guard(found: OneSided, side: _Side, other: _Side, operation: Operation) -> None:
    """Keep a guard that the other side does not have, or has with other values."""
    guarded = _guarded(operation)
    if guarded is None:
        return
    partners = side.partners(guarded)
    if not partners:
        return
    idle = [user for user in users_of(partners) if user.kind not in MOVES and _hands_on(user)]
    if not idle:
        if not _is_part(operation, side):
            _keep_guard(found, side, operation)
        return
    if side.name == "candidate":
        place = _other_values(operation, [user for user in idle if user.kind in _GUARDS], side, other)
        if place and place not in found.differing:
            found.differing.append(place)


def _keep_guard(found: OneSided, side: _Side, operation: Operation) -> None:
    """Keep the place of a guard that one side alone has, once."""
    places = found.guards.setdefault(side.name, [])
    place = f"{line_or_name(side.graph, operation)} ({operation.kind}{_told(operation)})"
    if place not in places:
        places.append(place)


def _hands_on(operation: Operation) -> bool:
    """Whether an operation, of whatever kind, changes nothing of an input."""
    made = operation.outputs[0]
    if operation.kind == "dropout" or made.digest is None:
        return False
    return made.digest in {v.digest for v in operation.inputs}


def _is_part(operation: Operation, side: _Side) -> bool:
    """Whether the line holds another guard before: one function that guards several times."""
    guarded = _guarded(operation)
    if guarded is None or guarded.maker is None:
        return False
    return guarded.maker.kind in _GUARDS and line_or_name(side.graph, guarded.maker) == line_or_name(side.graph, operation)


def _told(operation: Operation) -> str:
    """By what a guard bounds or replaces values, where that can be said."""
    values = _values(operation)
    return f" by {_reach(values[0])}" if values else ""


def _reach(bounds: tuple[float, float]) -> str:
    low, high = bounds
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def _other_values(operation: Operation, guards: list[Operation], side: _Side, other: _Side) -> str:
    """Where a guard would put other values in place than the reference's; '' if one is alike."""
    own, there = _values(operation), [(guard, value) for guard in guards for value in _values(guard)]
    if not own or not there:
        return ""
    for guard, due in there:
        if _are_compared_elsewhere(operation, guard) or any(_are_same(value, due) for value in own):
            return ""
    guard, due = there[0]
    said = f"{operation.kind} by {_reach(own[0])}, the reference {guard.kind} by {_reach(due)}"
    return f"{line_or_name(side.graph, operation)} ({said} at {line_or_name(other.graph, guard)})"


def _are_compared_elsewhere(operation: Operation, guard: Operation) -> bool:
    """Whether both are numbers of one kind, or bounds that are numbers."""
    if operation.kind == guard.kind == "nan_to_num":
        return True
    if "nan_to_num" in (operation.kind, guard.kind):
        return False
    return all(value.is_constant for value in (*_others(operation), *_others(guard)))


def _values(operation: Operation) -> list[tuple[float, float]]:
    """Least and greatest of each value that a guard puts in place, infinity left out."""
    if operation.kind == "nan_to_num":
        found = [(number, number) for number in _replacements(operation)]
    else:
        known = [digests.figures(v.digest) for v in _others(operation) if v.digest is not None]
        found = [(each.low * each.rms, each.high * each.rms) for each in known]
        if not found:
            found = [(number, number) for number in operation.numbers]
    return [each for each in found if max(map(abs, each)) < _ENDLESS]


def _replacements(operation: Operation) -> list[float]:
    """The numbers that ``nan_to_num`` puts in place, 0 first where none is said for NaN."""
    told = {name: float(v) for name, v in operation.arguments.items() if is_number(v)}
    if _NAN.isdisjoint(told):
        return [0.0, *told.values()]
    return list(told.values())


def _are_same(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return all(math.isclose(a, b, rel_tol=_SAME) for a, b in zip(one, other, strict=True))
