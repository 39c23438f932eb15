"""Which value an operation takes, and whether a gradient goes back, as in the reference.

Values alone do not tell: a value and its detached copy hold the same. What follows from them does, and the gradients of that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.adapters._kinds import MOVES
from paralign.capture import digest as digests
from paralign.locate.reaching import reached
from paralign.locate.runs.counterparts import is_telling
from paralign.locate.source.statements import custom_backward

if TYPE_CHECKING:
    from collections.abc import Callable

    from paralign.locate.runs.dataflow import Graph, Operation, Value
    from paralign.locate.runs.judgement import Judgement

#: gradients that differ by less are equal, where one of several operations is chosen by them
_EQUAL = 1e-4


#: values after one with a wrong gradient among which a multiple of a value of the reference is looked for
FOLLOWED = 32

#: two gradients are multiples of each other when nothing but their size differs by more than this
MULTIPLE = 1e-5


class Edges:
    """The ways from values to the operations that take them.

    Args:
        judgement: of the values of the forward pass.
        partners: the reference's values that a right value may be, parameters by their names.
    """

    def __init__(self, judgement: Judgement, partners: Callable[[Value], list[Value]]) -> None:
        self.judgement, self.partners = judgement, partners
        self._counterparts: dict[Operation, Operation | None] = {}

    def counterpart(self, operation: Operation) -> Operation | None:
        """The reference's operation that makes the same with the same gradient, if known."""
        if operation not in self._counterparts:
            self._counterparts[operation] = self._find(operation)
        return self._counterparts[operation]

    def _find(self, operation: Operation) -> Operation | None:
        """As :meth:`counterpart`, looked for."""
        if operation.kind in MOVES:
            return None
        made = filter(self.judgement.is_established, operation.outputs)
        pairs = [(value, partner) for value in made for partner in self.judgement.partners(value)]
        pairs = [(value, partner) for value, partner in pairs if partner.maker is not None and partner.maker.kind == operation.kind]
        if not pairs:
            return None
        place, length = operation.order / max(1, len(self.judgement.candidate.values)), max(1, len(self.judgement.reference.values))

        def unlike(pair: tuple[Value, Value]) -> tuple[float, float]:
            far = _gradients_apart(*pair)
            return (0.0 if far <= _EQUAL else far), abs(pair[1].order / length - place)

        return min(pairs, key=unlike)[1].maker

    def taken(self, user: Operation, value: Value) -> list[Value]:
        """What the reference takes where an operation takes a value; empty if not known."""
        counterpart = self.counterpart(user)
        if counterpart is None:
            return []
        partners = self.partners(value)
        return [v for v in counterpart.inputs if v in partners]

    def dead(self, user: Operation, value: Value) -> Value | None:
        """The reference's value, where no gradient goes back from what an operation takes."""
        taken, hooked = self.taken(user, value), self.judgement.reference.hooked
        if not taken or any(v.record.id in hooked for v in taken):
            return None
        return taken[0]

    def live(self, user: Operation, value: Value) -> bool:
        """Whether in the reference a gradient goes back from what an operation takes."""
        return any(v.record.id in self.judgement.reference.hooked for v in self.taken(user, value))


def _gradients_apart(one: Value, other: Value) -> float:
    """How far two gradients are apart; 1 where neither is known, 2 where one is."""
    mine, theirs = one.gradient_digest, other.gradient_digest
    if mine is None or theirs is None:
        return 1.0 if mine == theirs else 2.0
    return digests.distance(theirs, mine)


def cut(graph: Graph, value: Value, expects: Callable[[Value], bool]) -> Operation | None:
    """The operation at which a gradient ends: its inputs can have one, its results cannot.

    Args:
        graph: of the value's side.
        value: which has no place for a gradient; otherwise there is no such operation.
        expects: whether a value that goes in should have a gradient.
    """

    def before(each: Value) -> list[Value]:
        if each.maker is None or each.record.id in graph.hooked:
            return []
        return each.maker.inputs

    for each in reached([value], before, nearest_first=True):
        if any(v.record.id in graph.hooked and expects(v) for v in before(each)):
            return each.maker
    return None


def factor_of(due: Value, value: Value) -> float | None:
    """The one number that makes the reference's gradient the candidate's, if there is one."""
    if due.gradient is None or value.gradient is None:
        return None
    return _factor(due.gradient.digest or "", value.gradient.digest or "")


def multiplied(judgement: Judgement, value: Value, factor: float, follow: Callable[[Value], bool]) -> Operation | None:
    """What makes a multiple of a reference's value in a function with a backward of its own.

    A normalisation after it hides that from all but the gradients, which are so much smaller. The backward is not to blame.

    Args:
        judgement: of the values of the forward pass.
        value: from which the way to the loss is followed.
        factor: its gradient as a multiple of the reference's.
        follow: whether a value is on that way, and its gradient not right.
    """
    lacking = [v for v in judgement.reference.values.values() if v.maker is not None and judgement.lacking(v)]
    todo, seen = [value], {value}
    while todo and len(seen) < FOLLOWED:
        for user in todo.pop(0).users:
            own = user.source is not None and custom_backward(user.source) is not None
            for made in user.outputs:
                if made in seen or not follow(made):
                    continue
                seen.add(made)
                todo.append(made)
                if own and is_telling(made) and _is_multiple(made, lacking, factor):
                    return user
    return None


def _is_multiple(value: Value, known: list[Value], factor: float) -> bool:
    """Whether a value is one of the reference's, divided by a factor."""
    for due in known:
        times = _factor(due.digest, value.digest) if due.digest and value.digest else None
        if times is not None and abs(times * factor - 1) <= MULTIPLE:
            return True
    return False


def _factor(due: str, digest: str) -> float | None:
    ours, theirs = digests.figures(due), digests.figures(digest)
    if ours.size != theirs.size or ours.rms == 0 or theirs.rms == 0:
        return None
    turned = theirs._replace(mean=-theirs.mean, low=-theirs.high, high=-theirs.low)
    for sign, other in ((1.0, theirs), (-1.0, turned)):
        if all(abs(a - b) <= MULTIPLE * max(1.0, abs(a)) for a, b in zip(ours.moments(), other.moments(), strict=True)):
            return sign * theirs.rms / ours.rms
    return None
