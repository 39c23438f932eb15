"""Which values of a candidate's run are right, and how they correspond to the reference's."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paralign.adapters._kinds import MOVES
from paralign.capture import digest as digests
from paralign.locate.reaching import reached
from paralign.locate.runs.counterparts import ALIKE, SLIGHT, Matches, apart, digests_of, is_telling, ordered_distance

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from paralign.locate.runs.dataflow import Graph, Operation, Value

#: operations that take elements of a value, or move it
_TAKING = MOVES | {"slice", "split", "embedding", "gather", "gather_nd", "index_select", "take_along_axis", "where", "index"}

#: an operation's error counts as its own from this many times its noise on
OWN = 4.0

#: least noise of one operation, relative: kernels keep constants in float32
FLOOR = 2.4e-7

#: kinds whose kernels compute coordinates in float32 in whatever precision they run, which large pictures amplify
COORDINATES = frozenset({"interpolate"})


@dataclass(frozen=True)
class Scale:
    """How errors are judged in one precision.

    ``equal``: digests up to this distance are those of one value. ``floor``: the least noise that one operation is granted. ``own``:
    how many times its noise an operation's error must be. ``thorough``: the outputs are known to differ, by errors that add
    up; whatever leads to them is looked at.
    """

    equal: float = 1e-7
    floor: float = FLOOR
    own: float = OWN
    thorough: bool = False


class Judgement:
    """Every value of the candidate judged, in the order of execution.

    A value is *right* when the reference has it too, or when it is no further from the reference's than the operation's inputs and
    the reference's own rounding there explain. What is neither is *wrong*: it may be at fault, follow from a fault, or belong to
    another way of computing the same.

    Args:
        reference: the graph of the reference's run.
        candidate: the graph of the candidate's.
        noise: number of a reference record -> how far the reference is from itself there, 0 where that is not known.
        scale: how errors are judged.
        matches: the reference's values by what they hold, where they have been sorted before.
        homes: parameters of the reference -> those of the candidate that got their values, where one became one.
    """

    def __init__(
        self,
        reference: Graph,
        candidate: Graph,
        noise: dict[int, float],
        scale: Scale,
        matches: Matches | None = None,
        homes: Mapping[str, str] | None = None,
    ) -> None:
        self.reference, self.candidate, self.noise, self.scale = reference, candidate, noise, scale
        self.homes = homes or {}
        self.matches = matches or Matches(reference, scale.equal)
        self.backwards = Matches(candidate, scale.equal)
        self.error: dict[Value, float] = {}
        #: values behind coordinates that were computed in float32 -> how far their elements are from the reference's, in order.
        #: Digests, which do not see order, show less: such an error is a shift of pictures, which hardly moves their figures.
        self.blur: dict[Value, float] = {}
        self.wrong: set[Value] = set()
        self._twins: dict[Operation, Operation | None] = {}
        self._disordered: dict[Value, bool] = {}
        self._masks = {_true(v.digest) for v in reference.values.values() if v.record.dtype == "bool" and v.digest is not None}
        for value in dict.fromkeys(candidate.values.values()):
            if value.maker is None:
                self._judge_given(value)
        for operation in candidate.operations:
            self._judge(operation)
        self.outputs = self._paired_outputs()

    def _judge_given(self, value: Value) -> None:
        far, _ = self.matches.nearest(value)
        self.error[value] = far
        limit = max(self.scale.equal, self.scale.own * self.scale.floor)
        if far > limit and not _is_trivial(value):
            self.wrong.add(value)

    def _judge(self, operation: Operation) -> None:
        known = [self.error[value] for value in operation.inputs if value not in self.wrong]
        blurred = max((self.blur.get(v, 0.0) for v in operation.inputs), default=0.0)
        before = max([blurred, *filter(math.isfinite, known)])
        for value in operation.outputs:
            if value.digest is None or value.digest == "e1:0":
                self.error[value] = 0.0
                continue
            far, partner = self.matches.nearest(value)
            self.error[value] = far
            if partner is not None and (blurred or operation.kind in COORDINATES):
                partner = self._in_order(value, partner)
            if self._is_wrong(value, partner, before):
                self.wrong.add(value)
            if value in self.wrong and blurred:  # another way of computing the same hands it on
                self.blur[value] = blurred
            elif far > 0 and partner is not None:
                self._blur(value, partner, operation, blurred)

    def _is_wrong(self, value: Value, partner: Value | None, before: float) -> bool:
        """Whether a result is further from the reference's than its inputs' error explains."""
        far = self.error[value]
        if not far > self.scale.equal or _is_trivial(value):
            return False
        return partner is None or far > self.allowed(partner, before)

    def _in_order(self, value: Value, partner: Value) -> Value:
        """The one of the reference's nearest values whose elements lie in its order.

        Digests do not see the order: a picture and the same picture rolled are equally near.
        """
        known = [(far, p.order, p) for p in self.matches.next_to(value) if (far := ordered_distance(p, value)) is not None]
        return min(known, default=(0.0, 0, partner), key=lambda item: item[:2])[2]

    def _blur(self, value: Value, partner: Value, maker: Operation, before: float) -> None:
        """Keep how far a right value is off by coordinates that were computed in float32."""
        own = self._noise_of(partner) if maker.kind in COORDINATES else 0.0
        limit = self.scale.own * max(own, self._gain(partner) * before)
        far = ordered_distance(partner, value)
        if far is None:  # the order cannot be seen: as far as what it is made of
            far = before
        if 0 < far <= limit:
            self.blur[value] = far
            self.error[value] = max(self.error[value], far)

    def blurring(self) -> list[tuple[Value, Value]]:
        """The right results computed by coordinates in float32, each with the reference's."""
        pairs: list[tuple[Value, Value]] = []
        for operation in self.candidate.operations:
            if operation.kind not in COORDINATES or operation.written:
                continue
            for value in operation.outputs:
                if value not in self.blur or value in self.wrong:
                    continue
                due = [p for p in self.partners(value) if p.shape == value.shape]
                if due:
                    pairs.append((value, min(due, key=lambda p: ordered_distance(p, value) or 0.0)))
        return pairs

    def is_blurred(self) -> bool:
        """Whether outputs differ, and all that do by no more than coordinates in float32 explain."""
        apart_by = [(second, far) for _, second, far in self.outputs if far > self.scale.equal]
        for second, far in apart_by:
            if second in self.wrong or far > self.scale.own * self.blur.get(second, 0.0):
                return False
        return bool(apart_by)

    def has_slips(self) -> bool:
        """Whether a result is near a reference's value, but further off than inputs explain."""
        return any(self.error[value] <= SLIGHT for value in self.wrong)

    def _noise_of(self, value: Value) -> float:
        """How far the reference is from itself at one of its values."""
        return self.noise.get(value.record.id, 0.0)

    def _gain(self, partner: Value) -> float:
        """By how much an operation of the reference enlarges the noise of its inputs; at least 1."""
        behind = 0.0
        if partner.maker is not None:
            behind = max(map(self._noise_of, partner.maker.inputs), default=0.0)
        return max(1.0, self._noise_of(partner) / max(behind, self.scale.floor / 2))

    def allowed(self, partner: Value, before: float) -> float:
        """The greatest distance that is no fault of the operation, given its inputs'."""
        own = 0.0
        if partner.maker is not None and partner.maker.kind in COORDINATES:
            own = self._noise_of(partner)
        return self.scale.own * max(self.scale.floor, self._gain(partner) * before, own)

    def is_right(self, value: Value) -> bool:
        """Whether the reference has this value, but for noise."""
        return value not in self.wrong

    def is_established(self, value: Value) -> bool:
        """Whether a value is right, and so particular that this is no accident."""
        return self.is_right(value) and is_telling(value)

    def takes_right(self, operation: Operation) -> bool:
        """Whether all that an operation takes is right."""
        return self.wrong.isdisjoint(operation.inputs)

    def wrong_inputs(self, operation: Operation) -> list[Value]:
        """What is wrong of that which an operation takes."""
        return [value for value in operation.inputs if value in self.wrong]

    def makes_wrong(self, operation: Operation) -> bool:
        """Whether a result of an operation is wrong."""
        return not self.wrong.isdisjoint(operation.outputs)

    def leads_right(self, given: Value, besides: Collection[Operation]) -> bool:
        """Whether an operation computes a right value with the whole of what is given.

        Then it is right, as a table that the reference has in another form. What only takes elements of it does not tell.
        """
        users = [user for value in reached([given], _moved_to) for user in value.users]
        for user in users:
            if user in besides or user.kind in _TAKING:
                continue
            if any(map(self.is_established, user.inputs)) and any(map(self.is_established, user.outputs)):
                return True
        return False

    def lacking(self, value: Value) -> bool:
        """Whether the candidate has a reference's value nowhere."""
        if value.digest is None or not is_telling(value):
            return False
        return self.backwards.nearest(value)[0] > self.scale.own * self.scale.floor

    def partners(self, value: Value) -> list[Value]:
        """The reference's values that a right value may be."""
        same = self.matches.equals(value)
        if same or value in self.wrong:
            return same
        return self.matches.next_to(value)

    def partners_of(self, values: Iterable[Value]) -> set[Value]:
        """The reference's values that any of some values may be."""
        found: set[Value] = set()
        for value in values:
            found.update(self.partners(value))
        return found

    def disordered(self, value: Value) -> bool:
        """Whether a right value has the reference's elements in another order."""
        if value not in self._disordered:
            self._disordered[value] = self._disorder_of(value) > ALIKE
        return self._disordered[value]

    def _disorder_of(self, value: Value) -> float:
        """How far an established value is from the nearest of the reference's, in order."""
        if not self.is_established(value):
            return 0.0
        distances = [ordered_distance(p, value) for p in self.partners(value)]
        return min((far for far in distances if far is not None), default=0.0)

    def misplaced(self) -> list[tuple[Value, Value]]:
        """The pairs of outputs whose candidate's is right in itself, but at another place."""
        if self.scale.thorough:
            return []
        found: list[tuple[Value, Value]] = []
        for first, second in self.wrong_outputs():
            if second in self.wrong or self.disordered(second):
                continue
            found.append((first, second))
        return found

    def is_complement(self, value: Value) -> bool:
        """Whether the reference has a boolean mask the other way round."""
        if value.record.dtype != "bool" or value.digest is None:
            return False
        size, true = _true(value.digest)
        return 0 < true < size and (size, size - true) in self._masks

    def disorder(self, value: Value) -> Operation | None:
        """The operation that brought the elements of a right value into another order."""
        seen: set[Value] = set()
        while self.disordered(value) and value.maker is not None and value not in seen:
            seen.add(value)
            before = next((v for v in value.maker.inputs if self.is_right(v) and self.disordered(v)), None)
            if before is None:
                return value.maker
            value = before
        return None

    def _paired_outputs(self) -> list[tuple[Value, Value, float]]:
        """Both models' outputs in pairs, and how far they are apart, in order too."""
        ours, theirs = self.reference.outputs, self.candidate.outputs
        if ours.keys() == theirs.keys():
            pairs = [(ours[path], theirs[path]) for path in ours]
        else:  # named or nested in another way: in order
            pairs = list(zip(ours.values(), theirs.values(), strict=False))
        if self.reference.loss is not None and self.candidate.loss is not None:
            pairs.append((self.reference.loss, self.candidate.loss))
        found = []
        for first, second in pairs:
            if first.digest and second.digest:
                far, in_order = apart(first, second), ordered_distance(first, second)
                found.append((first, second, max(far, in_order or 0.0)))
        return found

    def wrong_outputs(self) -> list[tuple[Value, Value]]:
        """The pairs of outputs that differ by more than noise, in elements or in their order."""
        return [(first, second) for first, second, far in self.outputs if self._is_wrong_output(second, far)]

    def _is_wrong_output(self, value: Value, far: float) -> bool:
        """Whether an output that is so far from the reference's differs by more than noise."""
        limit = self.scale.equal
        if not self.scale.thorough and value not in self.wrong:
            inherited = self._inherited(value)
            limit = max(limit, self.scale.own * max(self.scale.floor, inherited), 10 * inherited)
        return far > limit

    def _inherited(self, value: Value) -> float:
        """The error of a right value, which is that of what it was made of."""
        far = self.error.get(value, 0.0)
        if value in self.wrong or not math.isfinite(far):
            return 0.0
        return far

    def carrying(self) -> set[Operation]:
        """The operations that made the wrong outputs wrong, as far back as values are wrong."""
        way = reached([second for _, second in self.wrong_outputs()], self._behind_wrong)
        return {value.maker for value in way if value.maker is not None and value in self.wrong}

    def _behind_wrong(self, value: Value) -> Iterable[Value]:
        """What a wrong value was made of; in a thorough search, what any value was made of."""
        if value.maker is None:
            return ()
        if self.scale.thorough or value in self.wrong:
            return value.maker.inputs
        return ()

    def twin(self, operation: Operation) -> Operation | None:
        """The reference's operation that takes the same right values, preferably of the kind."""
        if operation not in self._twins:
            self._twins[operation] = self._find_twin(operation)
        return self._twins[operation]

    def counterpart(self, operation: Operation) -> Operation | None:
        """The twin of an operation, if it is of the same kind."""
        twin = self.twin(operation)
        if twin is None or twin.kind != operation.kind:
            return None
        return twin

    def _find_twin(self, operation: Operation) -> Operation | None:
        """As :meth:`twin`, looked for."""
        if not operation.inputs:
            return self._without_inputs(operation)
        shared = self._sharing(operation)
        if not shared:
            return None
        place = operation.order / max(1, len(self.candidate.values))
        length = max(1, len(self.reference.values))
        wrong = self.makes_wrong(operation)

        def likeness(other: Operation) -> tuple[bool, bool, int, bool, float]:
            lacking = any(map(self.lacking, other.outputs))  # what the candidate has was done elsewhere
            return other.kind == operation.kind, wrong and lacking, shared[other], lacking, -abs(other.order / length - place)

        return max(shared, key=likeness)

    def _sharing(self, operation: Operation) -> Counter[Operation]:
        """The reference's operations that take the same values; parameters count twice."""
        shared: Counter[Operation] = Counter()
        moving = operation.kind in MOVES
        for value in dict.fromkeys(operation.inputs):
            if not self.is_established(value):
                continue
            users = {u for p in self.partners(value) for u in p.users if u.kind != "fill"}
            for user in users:
                if moving or user.kind not in MOVES:
                    shared[user] += 2 if value.is_parameter else 1
        return shared

    def _without_inputs(self, operation: Operation) -> Operation | None:
        """The reference's operation of the kind that makes of nothing what the candidate lacks."""
        sizes = {v.shape for v in operation.outputs}
        for other in self.reference.operations:
            if other.inputs or other.kind != operation.kind or {v.shape for v in other.outputs} != sizes:
                continue
            if any(self.backwards.nearest(v)[0] > self.scale.equal for v in other.outputs):
                return other
        return None

    def same_inputs(self, operation: Operation, twin: Operation) -> bool:
        """Whether two operations take the same values, as far as values tell."""
        due = set(filter(is_telling, twin.inputs))
        taken = list(filter(is_telling, operation.inputs))
        if not self._are_known(due, self.partners_of(taken)):
            return False
        held = digests_of(due)
        return all(self._is_among(v, due, held) for v in taken)

    def _are_known(self, due: set[Value], known: set[Value]) -> bool:
        """Whether each of some values of the reference is one of others, or holds the same."""
        return digests_of(due - known) <= digests_of(known)

    def _is_among(self, value: Value, due: set[Value], held: set[str | None]) -> bool:
        """Whether a value of the candidate is one of some of the reference, or holds the same.

        ``held`` are the digests of these.
        """
        partners = self.partners(value)
        return not due.isdisjoint(partners) or not held.isdisjoint(digests_of(partners))


def _true(digest: str) -> tuple[int, int]:
    """How many booleans there are, and how many of them are true."""
    size, rms = digests.size_and_rms(digest)
    return round(size), round(size * rms * rms)


def _is_trivial(value: Value) -> bool:
    """Whether a value is a constant that anything may contain: zeros, ones, simple numbers."""
    return value.is_constant and not is_telling(value)


def _moved_to(value: Value) -> list[Value]:
    """What a value becomes where it is only moved."""
    return [moved for user in value.users if user.kind in MOVES for moved in user.outputs]
