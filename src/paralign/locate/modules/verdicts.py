"""Which calls of the candidate are right, wrong, or different without harm."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from paralign.capture.digest import agree, is_evidence
from paralign.locate.runs.value_index import Values

if TYPE_CHECKING:
    from paralign.locate.modules.tree import Call, Trace


class Judge:
    """Judgements about single values and calls of the candidate, each made once.

    Values that are no evidence (constants, tiny tensors) are found everywhere by chance; what a call makes of them is
    compared with what its twin makes.
    """

    def __init__(self, reference: Trace, candidate: Trace, tolerance: float) -> None:
        self.reference, self.candidate, self._tolerance = reference, candidate, tolerance
        self._given: Values[Call] = Values(tolerance)
        for root in candidate.roots:
            for digest in root.consumed:
                self._given.add(digest, root)
        self._known: dict[str, bool] = {}
        self._present: dict[str, bool] = {}
        self._bad: dict[Call, list[str]] = {}
        self._twins: dict[Call, Call | None] = {}
        self._harmless: dict[Call, dict[Call, bool]] = {}
        self._cuts: dict[Call, list[Call]] = {}

    def known(self, digest: str) -> bool:
        """Whether the reference has this value; True where a match would say nothing."""
        if digest not in self._known:
            self._known[digest] = not is_evidence(digest) or self.reference.holds(digest)
        return self._known[digest]

    def twin(self, call: Call) -> Call | None:
        """The reference's call that consumes the same values; None where there is none.

        Among several: the one of the same kind, then one whose results the candidate lacks, then one that is alike in op, name,
        depth and place. A call without an input that is evidence goes by name.
        """
        if call not in self._twins:
            self._twins[call] = self._find_twin(call)
        return self._twins[call]

    def _find_twin(self, call: Call) -> Call | None:
        telling = [digest for digest in call.consumed if is_evidence(digest)]
        if not telling:
            return self.reference.namesake(call)
        found = self._consumers(telling)
        place, length = call.order / len(self.candidate.calls), len(self.reference.calls)
        return max(
            found,
            default=None,
            key=lambda other: (
                other.kind == call.kind,
                self._lacking(other),
                other.op.lower() == call.op.lower(),
                other.name == call.name,
                bool(other.children) == bool(call.children),
                other.depth == call.depth,
                -abs(other.order / length - place),
            ),
        )

    def _consumers(self, digests: list[str]) -> list[Call]:
        """The reference's calls that consume all of these values, in order of completion."""
        groups = [set(self.reference.consumed.find(digest)) for digest in digests]
        return sorted(set.intersection(*groups), key=lambda call: call.order)

    def _lacking(self, call: Call) -> bool:
        """Whether the candidate lacks a result of this call of the reference."""
        return any(is_evidence(digest) and not self._has(digest) for digest in call.made)

    def _has(self, digest: str) -> bool:
        if digest not in self._present:
            self._present[digest] = self.candidate.holds(digest)
        return self._present[digest]

    def bad_outputs(self, call: Call) -> list[str]:
        """Digests of outputs that the reference has not, or that differ from the twin's."""
        if call not in self._bad:
            self._bad[call] = [digest for digest in call.made if not self.known(digest)]
            if not all(is_evidence(digest) for digest in call.made):
                self._bad[call] += self._differing(call)
        return self._bad[call]

    def _differing(self, call: Call) -> list[str]:
        """Digests of outputs that are no evidence, and differ from those of a twin of the kind."""
        twin = self.twin(call)
        if twin is None or twin.kind != call.kind or len(twin.made) != len(call.made):
            return []
        found: list[str] = []
        for ours, theirs in zip(twin.made, call.made, strict=True):
            if is_evidence(theirs) or agree(ours, theirs, self._tolerance):
                continue
            found.append(theirs)
        return found

    def bad_inputs(self, call: Call) -> list[str]:
        """Digests of inputs that are wrong; what was given to the whole model counts as right."""
        return [digest for digest in call.consumed if digest not in self._given and self._is_bad(call, digest)]

    def _is_bad(self, call: Call, digest: str) -> bool:
        """Whether a value that a call takes is none of the reference's, or made by a bad call."""
        if not self.known(digest):
            return True
        if is_evidence(digest):
            return False
        return any(self.bad_outputs(maker) for maker in self._siblings(call, digest))

    def foreign_inputs(self, call: Call) -> list[str]:
        """Digests of the whole model's inputs that reach this call, foreign to the reference."""
        return [digest for digest in call.consumed if digest in self._given and not self.known(digest)]

    def _siblings(self, call: Call, digest: str) -> list[Call]:
        """The last call beside this one that made this value before; empty where there is none."""
        if call.parent is None:
            return []
        return self._made_inside(call.parent, digest, call.start)

    def _made_inside(self, container: Call, digest: str, before: int) -> list[Call]:
        found = [c for c in self.candidate.made.find(digest) if c.parent is container and c.order < before]
        return [max(found, key=lambda call: call.order)] if found else []

    def makers(self, container: Call, digest: str, consumer: Call | None) -> list[Call]:
        """The wrong children of a container that a wrong value can come from.

        The child that made this very value, if there is one. Otherwise the container's own code made it, and any child before
        it that made something wrong can be behind it, unless its difference is known to do no harm.
        """
        before = consumer.start if consumer else container.order
        made = self._made_inside(container, digest, before)
        if made:
            return [child for child in made if self.bad_outputs(child)]
        harmless = self.harmless(container)
        found: list[Call] = []
        for child in container.children:
            if child.order >= before or not self.bad_outputs(child):
                continue
            if not harmless[child] and not self._absorbed(container, child, before):
                found.append(child)
        return found

    def harmless(self, container: Call) -> dict[Call, bool]:
        """For every child with wrong outputs, whether all that take them make them right."""
        if container not in self._harmless:
            found: dict[Call, bool] = {}
            for child in reversed(container.children):  # those that consume come after those that make
                if self.bad_outputs(child):
                    users = self._users(container, child)
                    found[child] = bool(users) and all(self.agrees(user) or found.get(user, False) for user in users)
            self._harmless[container] = found
        return self._harmless[container]

    def _users(self, container: Call, child: Call) -> list[Call]:
        """The later calls of a container that take what is wrong of a child's outputs."""
        found: list[Call] = []
        for digest in self.bad_outputs(child):
            takers = self.candidate.consumed.find(digest)
            found += [call for call in takers if call.parent is container and call.start > child.order]
        return found

    def due(self, call: Call) -> bool:
        """Whether the reference makes something of the same inputs that the candidate has nowhere."""
        telling = list(filter(is_evidence, call.consumed))
        found = self._consumers(telling) if telling else []
        alike = [other for other in found if other.kind == call.kind]
        return any(map(self._lacking, alike or found))

    def _absorbed(self, container: Call, child: Call, before: int) -> bool:
        """Whether code after this child made a right value of what came before it.

        Only taken as such where nothing else speaks about the child: it consumes what the reference does not have, or makes what
        the reference makes nothing in place of.
        """
        if not self.bad_inputs(child) and self.due(child):
            return False
        cuts = self._made_by_code(container)
        following = bisect_right([cut.start for cut in cuts], child.order)
        return following < len(cuts) and cuts[following].order < before

    def _made_by_code(self, container: Call) -> list[Call]:
        """The children that take a right value which code made, and no child."""
        if container not in self._cuts:
            self._cuts[container] = [call for call in container.children if self._takes_of_code(container, call)]
        return self._cuts[container]

    def _takes_of_code(self, container: Call, call: Call) -> bool:
        """Whether a call takes a right value that no child made and the container was not given."""
        for digest in call.consumed:
            if not is_evidence(digest) or not self.known(digest):
                continue
            if self._made_inside(container, digest, call.start):
                continue
            if not any(agree(digest, given, self._tolerance) for given in container.consumed):
                return True
        return False

    def agrees(self, call: Call) -> bool:
        """Whether a call made what the reference has, and that says something."""
        if self.bad_outputs(call):
            return False
        return any(is_evidence(digest) for digest in call.made)

    def falls_short(self, call: Call) -> bool:
        """Whether a call is right where its twin makes something that the candidate lacks."""
        twin = self.twin(call)
        if twin is None or not self._lacking(twin) or len(twin.made) != len(call.made):
            return False
        if twin.name != call.name and (twin.kind, twin.op.lower()) != (call.kind, call.op.lower()):
            return False
        return not all(agree(ours, theirs, self._tolerance) for ours, theirs in zip(twin.made, call.made, strict=True))

    def last_agreeing(self, before: int) -> Call | None:
        """The last call that was completed before a place and that made what the reference has."""
        for call in reversed(self.candidate.calls[:before]):
            if self.agrees(call):
                return call
        return None
