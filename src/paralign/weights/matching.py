"""Which tensor of the candidate takes which of the reference: rules, names, likeness."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from paralign.weights import packed, projections, stacked
from paralign.weights.alternatives import choices
from paralign.weights.layouts import CELLS, COUNTERS
from paralign.weights.likeness import TABLES, Group, Likeness, Unit, grouped
from paralign.weights.move_notes import described, note_of, several_like
from paralign.weights.plan import SHARED, Ambiguity, Move, Plan
from paralign.weights.rules import Rules, learn
from paralign.weights.tensors import MATRIX, Tensor, as_cell, as_linear, as_products, bare, fits, is_convolution, read, route
from paralign.weights.transforms import reached
from paralign.weights.user_rules import Given

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Sequence

    from paralign.model import Record

#: a renaming seen this often is a rule
REGULAR = 2

_LINEAR = "linear"

#: what layers of the user's own call what the frameworks' layers call weight and bias, and the two parts of a weight that is normalised
AFFINE = {
    "scale": "weight",
    "gain": "weight",
    "gamma": "weight",
    "shift": "bias",
    "offset": "bias",
    "beta": "bias",
    "b": "bias",
    "g": "weight_g",
    "v": "weight_v",
}


def plan(
    reference: Sequence[Record],
    candidate: Sequence[Record],
    reference_framework: str,
    candidate_framework: str,
    *,
    calls: tuple[Sequence[str], Sequence[str]] | None = None,
    rules: Rules | None = None,
) -> Plan:
    """A place for every tensor of both models.

    Args:
        reference: state records (parameters and buffers, aliases included) of the reference, in order of definition.
        candidate: those of the candidate.
        reference_framework: ``torch``, ``paddle`` or ``numpy``.
        candidate_framework: likewise.
        calls: module paths of both sides in the order of their first execution, where that is known.
        rules: what the user wants; goes before all else.

    Raises:
        UsageError: two records of one side have the same name, one shares with an entry that is not there, or a rule speaks of no
            tensor or does not fit.
    """
    sides = read(reference, reference_framework, "reference"), read(candidate, candidate_framework, "candidate")
    matching = _matched(_Matching(*sides, calls=calls), rules)
    others = _by_order(*sides, calls) if rules is None else []
    matching.plan.alternatives = choices(matching.plan, matching.groups, others)
    return matching.plan


def _by_order(
    reference: list[Tensor], candidate: list[Tensor], calls: tuple[Sequence[str], Sequence[str]] | None
) -> list[tuple[str, Plan]]:
    """Plans that go by order instead of names, and what to call them."""

    def ordered(by: str, *, as_one: bool = False) -> Plan:
        return _matched(_Matching(reference, candidate, calls=calls, named=False, ordered=by, as_one=as_one), None).plan

    found = []
    if {t.name for t in reference} != {t.name for t in candidate}:
        found.append(("in order of definition", ordered("definition")))
    if calls:
        found.append(("in order of execution", ordered("calls")))
    if calls and all(_both_kinds(side) for side in (reference, candidate)):
        found.append(("in order of execution, convolutions by 1 and Linear layers as one kind", ordered("calls", as_one=True)))
    return found


def _matched(matching: _Matching, rules: Rules | None) -> _Matching:
    matching.by_user(rules or Rules())
    if matching.named:
        matching.by_name()
    matching.drop()
    matching.take_apart()
    whole, single = (_layer_key, _tensor_key) if not matching.as_one else (_layer_key_as_one, _tensor_key_as_one)
    for near in (False, True):
        matching.by_likeness(_owner, whole, near=near)
        matching.by_rule()
        matching.by_likeness(_tensor, single, near=near)
    for near in (False, True):
        matching.by_likeness(_tensor, _leaf_key, near=near)
        matching.turn()
        matching.by_likeness(_tensor, _shape_key, near=True)
    matching.by_likeness(_tensor, _leaf_key, near=True, aliases=True)
    matching.by_likeness(_tensor, _patch_key, near=True)
    matching.by_likeness(_tensor, _elements_key, near=True)
    matching.by_name_alone()
    matching.finish()
    return matching


def _owner(tensor: Tensor) -> Hashable:
    return tensor.owner, tensor.kind


def _tensor(tensor: Tensor) -> Hashable:
    return tensor


def _layer_key(tensors: list[Tensor]) -> Hashable:
    return tensors[0].kind, tuple((t.leaf, t.shape) for t in tensors)


def _tensor_key(tensors: list[Tensor]) -> Hashable:
    return tensors[0].kind, tensors[0].leaf, tensors[0].shape


def _as_one(tensor: Tensor) -> Tensor:
    """A tensor of a convolution by 1 as one of the Linear layer that computes the same.

    Any other as it is.
    """
    if not is_convolution(tensor) or len(bare(tensor.shape)) > MATRIX:
        return tensor
    return replace(tensor, kind=_LINEAR, shape=bare(tensor.shape))


def _both_kinds(side: Sequence[Tensor]) -> bool:
    if not any(t.kind == _LINEAR for t in side):
        return False
    return any(_as_one(t) is not t for t in side)


def _layer_key_as_one(tensors: list[Tensor]) -> Hashable:
    return _layer_key([_as_one(t) for t in tensors])


def _tensor_key_as_one(tensors: list[Tensor]) -> Hashable:
    return _tensor_key([_as_one(t) for t in tensors])


def _leaf_key(tensors: list[Tensor]) -> Hashable:
    return AFFINE.get(tensors[0].leaf, tensors[0].leaf), bare(tensors[0].shape)


def _shape_key(tensors: list[Tensor]) -> Hashable:
    return tensors[0].record.role, bare(tensors[0].shape)


def _patch_key(tensors: list[Tensor]) -> Hashable:
    """The key of a convolution that a Linear layer or matrix computes from its patches."""
    tensor = tensors[0]
    if tensor.part or not tensor.shape or not _may_hold_patches(tensor):
        return id(tensor)
    return tensor.shape[0], math.prod(tensor.shape[1:])


def _elements_key(tensors: list[Tensor]) -> Hashable:
    """The key of a tensor of the user's own that may be kept flat on the other side."""
    tensor = tensors[0]
    if tensor.part or tensor.kind or not bare(tensor.shape):
        return id(tensor)
    return tensor.record.role, math.prod(tensor.shape)


def _may_hold_patches(tensor: Tensor) -> bool:
    """Whether a tensor is a kernel, or a matrix that can take a kernel's place."""
    if not tensor.kind and len(tensor.shape) >= MATRIX:
        return True
    if tensor.leaf != "weight":
        return False
    return tensor.kind == _LINEAR or is_convolution(tensor)


def _called(tensor: Tensor) -> Hashable:
    return tensor.called


def _neutral_name(tensor: Tensor) -> Hashable:
    return tensor.neutral_name


@dataclass
class _Matching:
    """A plan in the making: what has no place yet is open, ``notes`` say why."""

    reference: list[Tensor]
    candidate: list[Tensor]
    calls: tuple[Sequence[str], Sequence[str]] | None = None
    named: bool = True
    ordered: str = "both"
    as_one: bool = False
    plan: Plan = field(default_factory=Plan)
    placed: set[Tensor] = field(default_factory=set)
    notes: dict[Tensor, str] = field(default_factory=dict)
    clashing: set[Tensor] = field(default_factory=set)
    unlike: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    sources: dict[tuple[str, str | None], tuple[tuple[str, str | None], str | None]] = field(default_factory=dict)

    def by_user(self, rules: Rules) -> None:
        """Place what the user's rules speak of."""
        given = Given(rules)
        for reference, candidate, transform, into in given.routes(self.reference, self.candidate):
            self._pair(reference, candidate, "user", (transform, into))
        for tensor, move in given.drops(self._open()):
            self._drop(tensor, move, "left out by a rule of the user's")
        for reference, candidate in given.renames([t for t in self.reference if t not in self.placed], self.candidate):
            if not self._misfit(reference, candidate):
                self._pair(reference, candidate, "user")

    def by_name(self) -> None:
        """Pair equal names: as they are first, then with neutral leaves."""
        pairs: list[tuple[Tensor, Tensor]] = []
        placed = set(self.placed)
        for name in _called, _neutral_name:
            taken = placed | {t for pair in pairs for t in pair}
            known = {name(t): t for t in self.reference if t not in taken}
            open_ = [t for t in self.candidate if t not in taken]
            pairs += [(known.pop(name(t)), t) for t in open_ if name(t) in known]
        for reference, candidate in pairs:
            tables = {reference.kind, candidate.kind} <= TABLES
            if _contrary_kinds(reference, candidate) and not tables:
                self.unlike.append((reference, candidate))
            elif not self._misfit(reference, candidate):
                self._pair(reference, candidate, "name")

    def by_name_alone(self) -> None:
        """Pair what has equal names and shapes in layers of different kinds.

        It is a last resort, after order.
        """
        for reference, candidate in self.unlike:
            if {reference, candidate} & self.placed or candidate.place in self.sources or self._misfit(reference, candidate):
                continue
            self._pair(reference, candidate, "name")

    def _misfit(self, reference: Tensor, candidate: Tensor) -> bool:
        """Whether two tensors of one name have shapes that do not go together.

        Says so in their notes.
        """
        if fits(reference, candidate):
            return False
        ours, theirs = reference.record, candidate.record
        transform, _ = route(reference, candidate)
        turned = ""
        if transform and reference.part is None and len(ours.shape) == len(theirs.shape):
            turned = f", {reached(transform, ours.shape)} after {transform}"
        self.notes[reference] = self.notes[candidate] = (
            f"{ours.name} has shape {tuple(ours.shape)} in the reference{turned}; {theirs.name} has {tuple(theirs.shape)} in the candidate"
        )
        return True

    def _pair(self, reference: Tensor, candidate: Tensor, how: str, way: tuple[str | None, str | None] | None = None) -> None:
        transform, into = way or route(reference, candidate)
        note = note_of(reference, candidate, transform)
        source = (reference.place, transform)
        known = self.sources.setdefault((candidate.root, into), source)
        if known != source:
            self.clashing.add(reference)
            self.notes[reference] = (
                f"the candidate holds {candidate.name} and {candidate.root} as one tensor, which is filled from "
                f"{known[0][0]}; the reference keeps them apart or lays them out otherwise"
            )
            return
        if known is not source:
            how, note = SHARED, "the values of one tensor under two names, on both sides"
        elif reference.name != reference.root:
            note = "; ".join(filter(None, (note, f"one tensor with {reference.root} in the reference, apart in the candidate")))
        self.plan.moves.append(Move(reference.record, candidate.record, transform, how, note, into, reference, candidate))
        self.placed |= {reference, candidate}

    def drop(self) -> None:
        """Drop what needs no twin: counters of calls, and buffers that a state dict leaves out."""
        for tensor, move in self._open():
            if tensor.leaf in COUNTERS:
                self._drop(tensor, move, "only counts calls; the other side has none")
            elif tensor.record.role == "buffer" and not tensor.record.attrs.get("persistent", True):
                self._drop(tensor, move, "a buffer that is computed, not stored; the other side has none")

    def _drop(self, tensor: Tensor, move: Move, note: str) -> None:
        move.how, move.note = "dropped", note
        self.plan.dropped.append(move)
        self.placed.add(tensor)

    def _open(self) -> list[tuple[Tensor, Move]]:
        return [
            *((t, Move(t.record, None, None, "unmatched")) for t in self.reference if t not in self.placed),
            *((t, Move(None, t.record, None, "unmatched")) for t in self.candidate if t not in self.placed),
        ]

    def _in_cells(self, tensors: list[Tensor], own: set[str], other: set[str]) -> list[Tensor]:
        """Recurrent layers as cells, and cells as products, where the other side has these."""
        layers, cells = _kinds_to_take_apart(own, other)
        found = []
        for tensor in tensors:
            apart = tensor
            if apart.kind in layers and self._free(apart):
                apart = as_cell(apart)
            if apart.kind in cells and self._free(apart):
                apart = as_products(apart)
            found.append(apart)
        return found

    def take_apart(self) -> None:
        """Take apart what one side has fused and the other has not."""
        kinds = [{t.kind for t in self._all_free(side)} for side in (self.reference, self.candidate)]
        self.reference = self._in_cells(self.reference, *kinds)
        self.candidate = self._in_cells(self.candidate, *reversed(kinds))
        ours = projections.split(self.reference, self.candidate, self.placed)
        theirs = projections.split(self.candidate, self.reference, self.placed)
        self._replace(ours, theirs)
        units = [self._units(self._all_free(side), n, _owner) for n, side in enumerate((self.reference, self.candidate))]
        self._replace(*packed.taken_apart(self.reference, self.candidate, *units))
        free = {*self._all_free(self.reference), *self._all_free(self.candidate)}
        ours = stacked.taken_apart(self.reference, self.candidate, free)
        self._replace(ours, stacked.taken_apart(self.candidate, self.reference, free))
        free = {*self._all_free(self.reference), *self._all_free(self.candidate)}
        ours = stacked.beside_each_other(self.reference, self.candidate, free)
        self._replace(ours, stacked.beside_each_other(self.candidate, self.reference, free))

    def _replace(self, reference: list[Tensor], candidate: list[Tensor]) -> None:
        if (len(reference), len(candidate)) != (len(self.reference), len(self.candidate)):
            self.reference, self.candidate = reference, candidate
            if self.named:
                self.by_name()

    def turn(self) -> None:
        """Turn bare matrices that the other side only has lying the other way."""
        self.reference = self._turned(self.reference, {t.shape for t in self._all_free(self.candidate)})
        self.candidate = self._turned(self.candidate, {t.shape for t in self._all_free(self.reference)})

    def _turned(self, mine: list[Tensor], shapes: set[tuple[int, ...]]) -> list[Tensor]:
        def lies_otherwise(t: Tensor) -> bool:
            if t.kind not in ("", "embedding") or len(t.shape) != MATRIX or not self._free(t):
                return False
            return t.shape not in shapes and t.shape[::-1] in shapes

        return [as_linear(t, (1, 0)) if lies_otherwise(t) else t for t in mine]

    def by_likeness(
        self,
        unit: Callable[[Tensor], Hashable],
        key: Callable[[list[Tensor]], Hashable],
        *,
        near: bool,
        aliases: bool = False,
    ) -> None:
        """Pair units (layers, or single tensors) that are alike.

        Args:
            unit: what makes tensors a unit.
            key: what alike units have in common.
            near: also where the sides have unequal numbers of them.
            aliases: take the reference's second names of tensors that have their place, for a candidate that holds them apart.
        """
        ours = self._again() if aliases else self._unused()
        references = grouped(self._units(ours, 0, unit), lambda u: key(u.tensors))
        candidates = grouped(self._units(self._unfilled(), 1, unit), lambda u: key(u.tensors))
        kinds = [kind for kind in references if kind in candidates]
        if not near:
            kinds = [kind for kind in kinds if len(references[kind]) == len(candidates[kind])]
        if not kinds:
            return
        likeness = Likeness(self.reference, self.candidate, named=self.named, ordered=self.ordered)
        likeness.learn(self._owners_paired())
        groups = [likeness.match(references[kind], candidates[kind]) for kind in kinds]
        likeness.learn((g.reference[r].owner, g.candidate[c].owner) for g in groups for r, c in g.decided())
        for kind in kinds:
            self._accept(likeness.match(references[kind], candidates[kind]))

    def _owners_paired(self, unsure: Collection[str] = ()) -> list[tuple[str, str]]:
        """The layers that moves connect, once a move.

        Without those of tensors that are ``unsure``.
        """
        found = []
        for move in self.plan.moves:
            if move.source is None or move.target is None or move.source.name in unsure:
                continue
            found.append((move.source.owner, move.target.owner))
        return found

    def _accept(self, group: Group) -> None:
        undecided = {number for component in group.undecided() for number in component}
        by_order = "calls" if self.calls else "order"
        for number, (row, column) in enumerate(group.pairs):
            alone = len(group.reference) == 1
            how = by_order if alone or number in undecided else "likeness"
            for reference, candidate in zip(group.reference[row].tensors, group.candidate[column].tensors, strict=True):
                if fits(reference, candidate):
                    self._pair(reference, candidate, how)
        for component in group.nameless():
            self.plan.ambiguous.append(_ambiguity(group, component))
        self.groups.append(group)

    def by_rule(self) -> None:
        """Pair what regular renamings of what has been paired already lead to."""
        renames = learn(dict.fromkeys(self._owners_paired(self.plan.unsure)))
        regular = [rename for rename in renames if rename.count >= REGULAR]
        open_ = {(t.owner, t.leaf): t for t in self._unfilled()}
        for tensor in self._all_free(self.reference):
            for rename in regular:
                found = open_.get((rename.applied(tensor.owner) or "", tensor.leaf))
                if found is None or found in self.placed or not fits(tensor, found) or _contrary_kinds(tensor, found):
                    continue
                self._pair(tensor, found, "rule")
                break

    def _units(self, tensors: Iterable[Tensor], side: int, unit: Callable[[Tensor], Hashable]) -> list[Unit]:
        """Units in order of definition, their tensors in one order on both sides."""
        executed = {} if self.calls is None else {path: n for n, path in reversed(list(enumerate(self.calls[side])))}
        places = {t: n for n, t in enumerate((self.reference, self.candidate)[side])}
        found = []
        for members in grouped_tensors(tensors, unit).values():
            called, owner = None, _module(members[0])
            while called is None and executed:
                called = executed.get(owner)
                if not owner:
                    break
                owner = owner.rpartition(".")[0]
            found.append(Unit(sorted(members, key=lambda t: (t.leaf, t.shape)), min(places[t] for t in members), called))
        return found

    def _free(self, tensor: Tensor) -> bool:
        return tensor.name == tensor.root and tensor not in self.placed and tensor not in self.clashing

    def _all_free(self, side: Iterable[Tensor]) -> list[Tensor]:
        """The tensors of a side that have no place yet, each by its first name."""
        return [t for t in side if self._free(t)]

    def _unused(self) -> list[Tensor]:
        """Free tensors of the reference, without parts of what is used as a whole."""
        used = {t.place for t in self.reference if t in self.placed}
        return [t for t in self._all_free(self.reference) if t.place not in used]

    def _unfilled(self) -> list[Tensor]:
        """Free tensors of the candidate that nothing is moved to."""
        return [t for t in self._all_free(self.candidate) if t.place not in self.sources]

    def _again(self) -> list[Tensor]:
        """The reference's second names of tensors, without those of cells of a layer."""
        found = []
        for tensor in self.reference:
            second = tensor.name != tensor.root and tensor.kind not in CELLS.values()
            if second and tensor not in self.placed:
                found.append(tensor)
        return found

    def finish(self) -> None:
        """Give the rest their places: aliases follow, the others are missing or extra."""
        used = {t.place for t in self.reference if t in self.placed} | self._whole(self.reference)
        given = {t.place for t in self.candidate if t in self.placed} | self._whole(self.candidate)
        left = []
        for tensor, move in self._open():
            has_its_place = tensor.place in (used if move.reference else given)
            if has_its_place and tensor not in self.clashing:
                self._drop(tensor, move, f"one tensor with {tensor.root}, whose values have their place")
            else:
                left.append((tensor, move))
        ours = Counter(_tensor_key([t]) for t, m in left if m.reference)
        theirs = Counter(_tensor_key([t]) for t, m in left if m.candidate)
        for tensor, move in left:
            if _computed(tensor):
                self._drop(tensor, move, "an index or a mask, computed when the model is built; the other side has none")
                continue
            key = _tensor_key([tensor])
            move.note = self.notes.get(tensor) or (
                f"no counterpart of this name; of {described(tensor)}, {ours[key]} left over in the reference "
                f"and {theirs[key]} in the candidate"
            )
            (self.plan.missing if move.reference else self.plan.extra).append(move)
        self._name_rules()

    def _name_rules(self) -> None:
        """Say of moves that follow a regular renaming that they do."""
        regular = [r for r in self.plan.rules.renames if r.count >= REGULAR]
        for move in self.plan.moves:
            if move.how != "likeness" or move.tensors is None:
                continue
            source, target = (t.owner for t in move.tensors)
            if source != target and any(r.applied(source) == target for r in regular):
                move.how = "rule"

    def _whole(self, side: list[Tensor]) -> set[tuple[str, str | None]]:
        """Roots whose parts all have their place."""
        placed: set[tuple[str, str | None]] = set()
        open_: set[tuple[str, str | None]] = set()
        for tensor in side:
            if tensor.part is None or tensor.name != tensor.root:
                continue
            (placed if tensor in self.placed else open_).add((tensor.root, None))
        return placed - open_


def grouped_tensors(tensors: Iterable[Tensor], unit: Callable[[Tensor], Hashable]) -> dict[Hashable, list[Tensor]]:
    """Unit -> its tensors, in order."""
    found: dict[Hashable, list[Tensor]] = {}
    for tensor in tensors:
        found.setdefault(unit(tensor), []).append(tensor)
    return found


def _module(tensor: Tensor) -> str:
    """The module whose execution uses a tensor, for parts the fused one."""
    return str(tensor.record.attrs.get("owner", tensor.owner)) if tensor.sizes else tensor.owner


def _computed(tensor: Tensor) -> bool:
    """Whether a tensor is a buffer of integers or truths, which no training makes."""
    return tensor.record.role == "buffer" and tensor.record.dtype.startswith(("int", "uint", "bool"))


def _contrary_kinds(reference: Tensor, candidate: Tensor) -> bool:
    """Whether both kinds are known, and differ."""
    if not reference.kind or not candidate.kind:
        return False
    return reference.kind != candidate.kind


def _kinds_to_take_apart(own: set[str], other: set[str]) -> tuple[set[str], set[str]]:
    """The kinds of a side's layers to be read as cells, and those of its cells as products."""
    layers: set[str] = set()
    cells: set[str] = set()
    for layer, cell in CELLS.items():
        if layer in other:
            continue
        by_hand = cell not in other
        if by_hand and _LINEAR not in other:
            continue
        if layer in own:
            layers.add(layer)
        if by_hand and own & {layer, cell}:
            cells.add(cell)
    return layers, cells


def _ambiguity(group: Group, numbers: Iterable[int]) -> Ambiguity:
    """Units of a group that fit one another in several orders, tensor by tensor."""
    reference, candidate, ours = [], [], []
    for number in numbers:
        row, column = group.pairs[number]
        unit, counterpart = group.reference[row], group.candidate[column]
        ours.append(unit)
        for one, other in zip(unit.tensors, counterpart.tensors, strict=True):
            reference.append(one.name)
            candidate.append(other.name)
    return Ambiguity(reference, candidate, several_like(ours))
