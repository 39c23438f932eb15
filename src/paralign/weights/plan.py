"""What becomes of every tensor of two models, and the two ways through a plan."""

from __future__ import annotations

import copy
import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.dtypes import Typed
from paralign.errors import UsageError
from paralign.weights.rules import Route, Rules, learn
from paralign.weights.transforms import keeps, put, reached, take, undone

if TYPE_CHECKING:
    from collections.abc import Callable

    from paralign.model import Record
    from paralign.weights.tensors import Tensor

    #: name of a tensor -> its values; None where there are none
    Fetch = Callable[[str], Typed | None]

    #: a place in the candidate: the name of a tensor, and which part of it (None: all)
    Slot = tuple[str, str | None]

#: ``how`` of a pair whose values another pair already carries, because both sides hold the two tensors as one
SHARED = "shared"


@dataclass
class Move:
    """A tensor's place on the other side.

    Where one record is None it has no place, and ``note`` says why.

    ``transform`` leads from the reference's values to the candidate's; ``into`` names the part of the candidate that they
    fill, None for all of it. Packed weights have several moves: to several candidates, each with a transform that takes a part,
    or from several references, each with a part of the candidate to go into.

    ``how`` is ``name``, ``rule`` (a regular renaming), ``likeness`` (names, numbers and neighbours), ``order``, ``calls`` (the
    order of execution), ``user`` (a rule of the user's) or ``shared`` (another move carries the values already, because both
    sides hold the two tensors as one); for a tensor without a place it is ``dropped`` or ``unmatched``.
    """

    reference: Record | None
    candidate: Record | None
    transform: str | None
    how: str
    note: str = ""
    into: str | None = None
    source: Tensor | None = field(default=None, repr=False, compare=False)
    target: Tensor | None = field(default=None, repr=False, compare=False)

    @property
    def slot(self) -> Slot:
        """What the move fills, named the same whichever part is chosen for it."""
        name = self.candidate.name if self.candidate is not None else ""
        part = self.target.part if self.target is not None else None
        return name, part or self.into

    @property
    def tensors(self) -> tuple[Tensor, Tensor] | None:
        """The source and the target; None where the move lacks one of them."""
        if self.source is None or self.target is None:
            return None
        return self.source, self.target

    @property
    def whole(self) -> bool:
        """Whether all of the reference's tensor goes to all of the candidate's."""
        return self.into is None and keeps(self.transform)


@dataclass
class Ambiguity:
    """Tensors that fit one another in several orders.

    ``reference[i]`` was moved to ``candidate[i]``.
    """

    reference: list[str]
    candidate: list[str]
    note: str = ""


@dataclass
class Option:
    """Another way to fill slots: ``takes[slot]`` is where its source was."""

    note: str
    takes: dict[Slot, Slot] = field(default_factory=dict)
    routes: dict[Slot, tuple[str | None, str | None]] = field(default_factory=dict)


@dataclass
class Choice:
    """Slots that can be filled in several ways which the shapes allow.

    ``options`` are the others, most likely first.

    ``decided`` says that names speak against all of them: they are tried only where the first way is wrong. ``likely`` says that the first
    option has more evidence than the plan: it is taken where no assignment proves right, if it is nearer to being so. ``turns`` says
    that the options transpose matrices that are the user's own on both sides, where no framework's layout asks for it.
    """

    note: str
    options: list[Option]
    decided: bool = False
    likely: bool = False
    turns: bool = False


@dataclass
class Plan:
    """Every tensor of both sides (or part of one), each in exactly one place.

    Args:
        moves: tensors of the reference that have a twin.
        dropped: tensors of either side that need no twin.
        missing: tensors of the reference that the candidate lacks.
        extra: tensors of the candidate that the reference lacks: nothing fills them.
        ambiguous: those among the moves that could as well have been others.
        alternatives: the other assignments that shapes allow, to be tried by :func:`paralign.weights.prove`.
        index: the moves by name, made when they are asked for.
    """

    moves: list[Move] = field(default_factory=list)
    dropped: list[Move] = field(default_factory=list)
    missing: list[Move] = field(default_factory=list)
    extra: list[Move] = field(default_factory=list)
    ambiguous: list[Ambiguity] = field(default_factory=list)
    alternatives: list[Choice] = field(default_factory=list)
    index: Any = field(default=None, repr=False, compare=False)

    @property
    def rules(self) -> Rules:
        """The renamings and routes of the plan as a short table.

        Can be saved, edited and given to ``plan`` again.
        """
        return _rules_of(self)

    @property
    def complete(self) -> bool:
        """Whether no tensor is left without a twin that should have one."""
        return not self.missing and not self.extra

    @property
    def carrying(self) -> list[Move]:
        """The moves that carry values: all but those that only give a second name to others."""
        return [m for m in self.moves if m.how != SHARED]

    @property
    def by_slot(self) -> dict[Slot, Move]:
        """The moves that carry values, by what each of them fills."""
        return {m.slot: m for m in self.carrying}

    @property
    def unsure(self) -> set[str]:
        """Names of the reference's tensors that could as well have gone elsewhere."""
        return {name for ambiguity in self.ambiguous for name in ambiguity.reference}

    @property
    def transfers(self) -> list[tuple[Record, Move]]:
        """What to write, part by part: the record that *holds* the values, and the move.

        An alias is recorded without values; the record that holds them is the entry which it shares with.
        """
        holders: dict[str, Record] = {}
        for move in (*self.moves, *self.dropped, *self.missing):
            if move.reference is not None:
                holders[move.reference.name] = move.reference
        found = []
        for move in self.carrying:
            if move.reference is not None:
                held_by = move.reference.attrs.get("shared") or ""
                found.append((holders.get(held_by, move.reference), move))
        return found

    @property
    def twins(self) -> list[tuple[Record, Record]]:
        """The tensors of the reference and of the candidate that moves connect.

        One twice where it has parts.
        """
        return [(m.reference, m.candidate) for m in self.moves if m.reference is not None and m.candidate is not None]

    @property
    def whole_twins(self) -> list[tuple[Record, Record]]:
        """Those tensors that go, all of them, to all of one of the candidate's."""
        whole = [m for m in self.moves if m.whole]
        return [(m.reference, m.candidate) for m in whole if m.reference is not None and m.candidate is not None]

    @property
    def targets(self) -> list[Record]:
        """Every tensor of the candidate that is filled, all of it, once each."""
        found = []
        for fillings in self._indexed()[0].values():
            moves = [move for _, move in fillings]
            if _is_covered(moves, 1):
                found.append(_ends(moves[0])[1])
        return found

    @property
    def sources(self) -> list[Record]:
        """Every reference tensor that has a place in the candidate, in the order of moves."""
        return [_ends(moves[0])[0] for moves in self._indexed()[1].values() if _is_covered(moves, 0)]

    def moves_of(self, reference: str) -> list[Move]:
        """The moves of one tensor of the reference: several where the candidate has it in parts."""
        return self._indexed()[1].get(reference, [])

    def candidates_of(self, reference: str) -> list[Record]:
        """The tensors of the candidate that one tensor of the reference goes to."""
        return [move.candidate for move in self.moves_of(reference) if move.candidate is not None]

    def fillings(self) -> dict[str, tuple[tuple[str, str | None, str | None], ...]]:
        """What fills each of the :attr:`targets`: names of tensors that hold values, with the way.

        Equal for plans that do the same.
        """
        by_target = self._indexed()[0]
        return {t.name: tuple((holder.name, m.transform, m.into) for holder, m in by_target[t.name]) for t in self.targets}

    def _indexed(self) -> tuple[dict[str, list[tuple[Record, Move]]], dict[str, list[Move]]]:
        """Transfers by target and moves by reference, made once for a list of moves."""
        key = (id(self.moves), len(self.moves))
        if self.index is None or self.index[0] != key:
            by_target: dict[str, list[tuple[Record, Move]]] = defaultdict(list)
            by_reference: dict[str, list[Move]] = defaultdict(list)
            for holder, move in self.transfers:
                by_target[move.slot[0]].append((holder, move))
            for move in self.moves:
                by_reference[_ends(move)[0].name].append(move)
            self.index = key, by_target, by_reference
        found: tuple[dict[str, list[tuple[Record, Move]]], dict[str, list[Move]]] = self.index[1:]
        return found

    def assemble(self, target: str, fetch: Fetch) -> Typed | None:
        """A tensor of the candidate made from those of the reference.

        None where ``fetch`` has none for a part.

        Args:
            target: the name of a tensor under :attr:`targets`.
            fetch: the values of the reference by name: weights, or gradients.

        Raises:
            UsageError: nothing fills the target or a part of it, the parts have different element types, or values have another
                shape than their record.
        """
        found = self._indexed()[0].get(target)
        if not found:
            raise UsageError("no tensor of the reference fills this one", where=target, hint="assemble only what stands under 'targets'")
        values = [fetch(holder.name) for holder, _ in found]
        if any(v is None for v in values):
            return None
        known = [v for v in values if v is not None]
        if len(found) == 1 and found[0][1].into is None:
            return apply(found[0][1], known[0])
        _, record = _ends(found[0][1])
        pieces = [(m.into, _part(m, v)) for (_, m), v in zip(found, known, strict=True)]
        return _joined(record, pieces)

    def restore(self, reference: str, fetch: Fetch) -> Typed | None:
        """A tensor of the reference made from those of the candidate, bit by bit.

        None where ``fetch`` has none for a part.

        Args:
            reference: the name of a tensor of the reference under :attr:`moves`.
            fetch: the values of the candidate by name: weights, or gradients.

        Raises:
            UsageError: as for :meth:`assemble`.
        """
        moves = self.moves_of(reference)
        if not moves:
            raise UsageError("this tensor has no place in the candidate", where=reference, hint="restore only what stands under 'moves'")
        values = [fetch(m.candidate.name) if m.candidate is not None else None for m in moves]
        if any(v is None for v in values):
            return None
        known = [v for v in values if v is not None]
        if moves[0].whole:
            return invert(moves[0], known[0])
        record, _ = _ends(moves[0])
        return _joined(record, [_back(m, v) for m, v in zip(moves, known, strict=True)])

    def choose(self, option: Option) -> Plan:
        """The plan with some slots filled otherwise; this one is left as it is."""
        chosen = copy.copy(self)
        at = self.by_slot
        chosen.moves = []
        for move in self.moves:
            origin = None
            if move.how != SHARED:
                origin = at.get(option.takes.get(move.slot, move.slot))
            way = option.routes.get(move.slot)
            if origin is None or (origin is move and not _leads_otherwise(move, way)):
                chosen.moves.append(move)
            else:
                chosen.moves.append(_taking(move, origin, way))
        return chosen

    def rows(self) -> list[tuple[str, str, str, str, str]]:
        """The plan as a table: reference, transform, candidate, how, note."""
        found = []
        for move in (*self.moves, *self.missing, *self.extra, *self.dropped):
            source = move.reference.name if move.reference is not None else ""
            target = move.candidate.name if move.candidate is not None else ""
            if move.into:
                target += f" [{move.into}]"
            found.append((source, move.transform or "", target, move.how, move.note))
        return found


def apply(move: Move, value: Typed) -> Typed:
    """What a move makes of the reference's values.

    Bits and element type are kept, and memory is shared where it can be.

    For a move into a part of the candidate this is the part; :meth:`Plan.assemble` joins the parts.

    Raises:
        UsageError: the move has no twin, its transform is none of ours, or the values have another shape than the record.
    """
    reference, _ = _ends(move)
    _check(value, reference)
    return _taken(move.transform, value, reference)


def invert(move: Move, value: Typed) -> Typed:
    """The candidate's values in the reference's layout, bit by bit as before :func:`apply`.

    Raises:
        UsageError: as for :func:`apply`, or the move carries only a part (:meth:`Plan.restore` joins the parts).
    """
    reference, candidate = _ends(move)
    if move.into is not None:
        raise UsageError("the move fills only a part of this tensor", where=candidate.name, hint="join the parts with Plan.restore")
    transform = undone(move.transform, tuple(reference.shape))
    _check(value, candidate)
    return _taken(transform, value, candidate)


def _part(move: Move, value: Typed) -> Typed:
    reference, _ = _ends(move)
    _check(value, reference)
    return _taken(move.transform, value, reference)


def _back(move: Move, value: Typed) -> tuple[str | None, Typed]:
    """Where in the reference the values of a move belong, and the values as they lie there."""
    _, candidate = _ends(move)
    _check(value, candidate)
    return move.transform, _taken(move.into, value, candidate)


def _joined(record: Record, pieces: list[tuple[str | None, Typed]]) -> Typed:
    kinds = {piece.dtype for _, piece in pieces}
    if len(kinds) > 1:
        raise UsageError(
            f"the parts of this tensor have different element types: {', '.join(sorted(kinds))}",
            where=record.name,
            hint="cast one side first",
        )
    filled = sum(piece.array.size for _, piece in pieces)
    whole = np.empty(record.shape, pieces[0][1].array.dtype)
    if filled != whole.size:
        raise UsageError(
            f"only {filled} of {whole.size} elements have a source",
            where=record.name,
            hint="the other parts stand under 'missing' and 'extra' of the plan",
        )
    for place, piece in pieces:
        put(place, whole, piece.array)
    return Typed(whole, pieces[0][1].dtype)


def _is_covered(moves: list[Move], end: int) -> bool:
    """Whether moves of one tensor of the reference (end 0) or candidate (1) cover all of it."""
    return _size(moves, end) == math.prod(_ends(moves[0])[end].shape)


def _size(moves: list[Move], end: int) -> int:
    """How many elements of the reference (end 0) or the candidate (end 1) moves cover."""
    paths = ((move.transform, move.into)[end] for move in moves)
    return sum(math.prod(reached(path, _ends(move)[end].shape)) for path, move in zip(paths, moves, strict=True))


def _ends(move: Move) -> tuple[Record, Record]:
    if move.reference is None or move.candidate is None:
        record = move.reference or move.candidate
        raise UsageError(
            "this tensor has no counterpart to be moved to",
            where=record.name if record else None,
            hint=move.note or "apply only what stands under 'moves'",
        )
    return move.reference, move.candidate


def _check(value: Typed, record: Record) -> None:
    if tuple(value.array.shape) != tuple(record.shape):
        raise UsageError(
            f"the values have shape {tuple(value.array.shape)}, the plan was made for {tuple(record.shape)}",
            where=record.name,
            hint="make the plan again from the records that the values belong to",
        )


def _passable(move: Move, transform: str | None, into: str | None) -> bool:
    """Whether another way leads from a move's source to its target."""
    reference, candidate = _ends(move)
    try:
        return math.prod(reached(transform, reference.shape)) == math.prod(reached(into, candidate.shape))
    except UsageError:
        return False


def _leads_otherwise(move: Move, way: tuple[str | None, str | None] | None) -> bool:
    """Whether there is another way for a move that keeps its source."""
    return way is not None and _passable(move, *way)


def _taking(move: Move, origin: Move, way: tuple[str | None, str | None] | None) -> Move:
    """A move that takes the source of another, on the way that this asks for."""
    from paralign.weights.tensors import route

    transform, into = way or (origin.transform, move.into)
    if origin is not move and origin.source is not None and move.target is not None:
        transform, into = route(origin.source, move.target)
    return Move(origin.reference, move.candidate, transform, "proof", move.note, into, origin.source, move.target)


def _taken(transform: str | None, value: Typed, record: Record) -> Typed:
    if transform is None:
        return value
    try:
        reached(transform, value.array.shape)
    except UsageError as misfit:
        raise UsageError(
            misfit.what, where=misfit.where or record.name if "is no transform" not in misfit.what else None, hint=misfit.hint
        ) from misfit
    return Typed(take(transform, value.array), value.dtype)


def _rules_of(plan: Plan) -> Rules:
    """The rules behind a plan's moves: renamings, and ways of parts."""
    modules: dict[tuple[str, str], None] = {}
    ways: dict[tuple[str | None, str | None], list[tuple[str, str]]] = defaultdict(list)
    for move in plan.carrying:
        if move.tensors is None or move.reference is None or move.candidate is None:
            continue
        source, target = move.tensors
        names = move.reference.name, move.candidate.name
        if not move.whole:
            ways[move.transform, move.into].append(names)
        elif source.leaf == target.leaf or move.how == "name":
            modules[source.owner, target.owner] = None
        else:
            modules[names] = None
    routes = [
        Route(r.reference, r.candidate, transform, into, r.count)
        for (transform, into), pairs in ways.items()
        for r in learn(pairs, shorten=False) + _same(pairs)
    ]
    return Rules(tuple(learn(modules)), tuple(routes))


def _same(pairs: list[tuple[str, str]]) -> list[Route]:
    return [Route(one, other, count=1) for one, other in pairs if one == other]
