"""Which tensor of the candidate takes which tensor of the reference: by name, then by order among layers alike."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from paralign.errors import UsageError
from paralign.weights.layouts import COUNTERS, between, layer, layout, neutral_leaf
from paralign.weights.plan import SHARED, Ambiguity, Move, Plan
from paralign.weights.transforms import inverse, parse, permuted

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from paralign.model import Record


@dataclass(frozen=True, eq=False)
class Tensor:
    """A record in neutral terms; ``root`` names the entry that holds its values (itself, or the one it shares with)."""

    record: Record
    owner: str
    kind: str
    leaf: str
    axes: tuple[int, ...]
    shape: tuple[int, ...]
    root: str

    @property
    def name(self) -> str:
        """The full state name, as the side has it."""
        return self.record.name


def plan(reference: Sequence[Record], candidate: Sequence[Record], reference_framework: str, candidate_framework: str) -> Plan:
    """A place for every tensor of both models.

    Args:
        reference: state records (parameters and buffers, aliases included) of the reference, in order of definition.
        candidate: those of the candidate.
        reference_framework: ``torch``, ``paddle`` or ``numpy``.
        candidate_framework: likewise.

    Raises:
        UsageError: two records of one side have the same name, or one shares with an entry that is not there.
    """
    matching = _Matching(_read(reference, reference_framework, "reference"), _read(candidate, candidate_framework, "candidate"))
    matching.by_name()
    matching.drop()
    matching.by_order(_owner, _layer_key)
    matching.by_order(_name, _tensor_key)
    matching.by_name_alone()
    return matching.finish()


def _read(records: Sequence[Record], framework: str, side: str) -> list[Tensor]:
    names: set[str] = set()
    for record in records:
        if record.name in names:
            raise UsageError(f"the {side} has two tensors of this name", where=record.name,
                             hint="hand over parameters and buffers of one model, each once")
        names.add(record.name)
    shared = {record.name: record.attrs.get("shared") for record in records}
    found = []
    for record in records:
        path, _, last = record.name.rpartition(".")
        owner, kind = record.attrs.get("owner", path), layer(record.attrs.get("kind") or "")
        leaf = neutral_leaf(kind, record.attrs.get("leaf") or last)
        axes = layout(framework, kind, leaf, len(record.shape))
        found.append(Tensor(record, owner, kind, leaf, axes, permuted(record.shape, inverse(axes)), _root(record.name, shared, side)))
    return found


def _root(name: str, shared: dict[str, str | None], side: str) -> str:
    root = shared[name]
    if root is None:
        return name
    if shared.get(root, name) is not None:  # not there, or itself an alias
        raise UsageError(f"the {side} says that this tensor is shared with {root!r}, which is no tensor that holds values of its own",
                         where=name, hint="record the weights of the whole model again")
    return root


def _owner(tensor: Tensor) -> Hashable:
    return tensor.owner, tensor.kind


def _name(tensor: Tensor) -> Hashable:
    return tensor.name


def _neutral_name(tensor: Tensor) -> Hashable:
    return f"{tensor.owner}.{tensor.leaf}" if tensor.owner else tensor.leaf


def _layer_key(tensors: list[Tensor]) -> Hashable:
    return tensors[0].kind, tuple((t.leaf, t.shape) for t in tensors)


def _tensor_key(tensors: list[Tensor]) -> Hashable:
    return tensors[0].kind, tensors[0].leaf, tensors[0].shape


@dataclass
class _Matching:
    """A plan in the making: ``open`` tensors have no place yet, ``notes`` say why not."""

    reference: list[Tensor]
    candidate: list[Tensor]
    plan: Plan = field(default_factory=Plan)
    placed: set[Tensor] = field(default_factory=set)
    notes: dict[Tensor, str] = field(default_factory=dict)
    clashing: set[Tensor] = field(default_factory=set)
    unlike: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    sources: dict[str, tuple[str, str | None]] = field(default_factory=dict)

    def by_name(self) -> None:
        """Pair equal names: as they are first, then with neutral leaves."""
        pairs: list[tuple[Tensor, Tensor]] = []
        for name in _name, _neutral_name:
            taken = {t for pair in pairs for t in pair}
            known = {name(t): t for t in self.reference if t not in taken}
            pairs += [(known.pop(name(t)), t) for t in self.candidate if t not in taken and name(t) in known]
        for reference, candidate in pairs:
            if reference.kind and candidate.kind and reference.kind != candidate.kind:
                self.unlike.append((reference, candidate))
            elif not self._misfit(reference, candidate):
                self._pair(reference, candidate, "name")

    def by_name_alone(self) -> None:
        """Pair what has equal names and shapes in layers of different kinds: a last resort, after order."""
        for reference, candidate in self.unlike:
            if {reference, candidate} & self.placed or candidate.root in self.sources or self._misfit(reference, candidate):
                continue
            self._pair(reference, candidate, "name")

    def _misfit(self, reference: Tensor, candidate: Tensor) -> bool:
        """Whether two tensors of one name have shapes that do not go together; says so in their notes."""
        ours, theirs = reference.record, candidate.record
        transform = _transform(reference, candidate)
        after = permuted(ours.shape, parse(transform))
        if after == tuple(theirs.shape):
            return False
        turned = f", {after} after {transform}" if transform else ""
        self.notes[reference] = self.notes[candidate] = (
            f"{ours.name} has shape {tuple(ours.shape)} in the reference{turned}; {theirs.name} has {tuple(theirs.shape)} in the candidate")
        return True

    def _pair(self, reference: Tensor, candidate: Tensor, how: str) -> None:
        transform = _transform(reference, candidate)
        note = _note(reference, candidate)
        source = (reference.root, transform)
        known = self.sources.setdefault(candidate.root, source)
        if known != source:
            self.clashing.add(reference)
            self.notes[reference] = (f"the candidate holds {candidate.name} and {candidate.root} as one tensor, which is filled from "
                                     f"{known[0]}; the reference keeps them apart or lays them out otherwise")
            return
        if known is not source:
            how, note = SHARED, "the values of one tensor under two names, on both sides"
        elif reference.name != reference.root:
            note = "; ".join(filter(None, (note, f"one tensor with {reference.root} in the reference, apart in the candidate")))
        self.plan.moves.append(Move(reference.record, candidate.record, transform, how, note))
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
        return [*((t, Move(t.record, None, None, "unmatched")) for t in self.reference if t not in self.placed),
                *((t, Move(None, t.record, None, "unmatched")) for t in self.candidate if t not in self.placed)]

    def by_order(self, unit: Callable[[Tensor], Hashable], key: Callable[[list[Tensor]], Hashable]) -> None:
        """Pair units (layers, or single tensors) that are alike in order of definition, where both sides have as many."""
        used = {r.root for r in self.reference if r in self.placed}
        references = _alike((t for t in self.reference if self._free(t) and t.root not in used), unit, key)
        candidates = _alike((t for t in self.candidate if self._free(t) and t.root not in self.sources), unit, key)
        for kind, group in references.items():
            others = candidates.get(kind, [])
            if len(group) != len(others):
                continue  # which of them is one too many is anyone's guess
            pairs = [pair for one, other in zip(group, others, strict=True) for pair in zip(one, other, strict=True)]
            if len(group) > 1:
                self.plan.ambiguous.append(Ambiguity([r.name for r, _ in pairs], [c.name for _, c in pairs], _several(group)))
            for reference, candidate in pairs:
                self._pair(reference, candidate, "order")

    def _free(self, tensor: Tensor) -> bool:
        return tensor not in self.placed and tensor.name == tensor.root and tensor not in self.clashing

    def finish(self) -> Plan:
        """Give the rest their places: aliases follow the entry that they share with, what remains is missing or extra."""
        used = {t.root for t in self.reference if t in self.placed}
        left = [(t, m) for t, m in self._open() if t in self.clashing or t.root not in (used if m.reference else self.sources)]
        apart = {t for t, _ in left}
        for tensor, move in self._open():
            if tensor not in apart:
                self._drop(tensor, move, f"one tensor with {tensor.root}, whose values have their place")
        ours = Counter(_tensor_key([t]) for t, m in left if m.reference)
        theirs = Counter(_tensor_key([t]) for t, m in left if m.candidate)
        for tensor, move in left:
            key = _tensor_key([tensor])
            move.note = self.notes.get(tensor) or (f"no twin of this name; of {_described(tensor)}, {ours[key]} left over in the "
                                                   f"reference and {theirs[key]} in the candidate")
            (self.plan.missing if move.reference else self.plan.extra).append(move)
        return self.plan


def _alike(tensors: Iterable[Tensor], unit: Callable[[Tensor], Hashable],
           key: Callable[[list[Tensor]], Hashable]) -> dict[Hashable, list[list[Tensor]]]:
    """Key -> units of that key in order of definition, each with its tensors in an order that is the same on both sides."""
    units: dict[Hashable, list[Tensor]] = defaultdict(list)
    for tensor in tensors:
        units[unit(tensor)].append(tensor)
    found: dict[Hashable, list[list[Tensor]]] = defaultdict(list)
    for members in units.values():
        ordered = sorted(members, key=lambda t: (t.leaf, t.shape))
        found[key(ordered)].append(ordered)
    return found


def _transform(reference: Tensor, candidate: Tensor) -> str | None:
    if reference.kind != candidate.kind or len(reference.axes) != len(candidate.axes):
        return None  # one side's layer is of the user's own: what it means by its layout is not known, so nothing is turned
    return between(reference.axes, candidate.axes)


def _note(reference: Tensor, candidate: Tensor) -> str:
    ours, theirs = reference.record, candidate.record
    said = []
    for what, one, other in (("role", ours.role, theirs.role), ("element type", ours.dtype, theirs.dtype),
                             ("trainable", ours.attrs.get("trainable", True), theirs.attrs.get("trainable", True)),
                             ("layer", _layer_name(reference), _layer_name(candidate))):
        if one != other and (what != "layer" or reference.kind != candidate.kind):
            said.append(f"{what}: {one} in the reference, {other} in the candidate")
    if reference.kind != candidate.kind and reference.axes != candidate.axes:
        said.append("taken as it is, not transposed")
    return "; ".join(said)


def _layer_name(tensor: Tensor) -> str:
    return tensor.record.attrs.get("kind") or "one of the user's own"


def _described(tensor: Tensor) -> str:
    return f"layer {_layer_name(tensor)}, leaf {tensor.leaf!r} and shape {tuple(tensor.record.shape)}"


def _several(group: list[list[Tensor]]) -> str:
    first = group[0]
    return (f"{len(group)} times layer {_layer_name(first[0])} with " + ", ".join(f"{t.leaf} {tuple(t.record.shape)}" for t in first)
            + ": other orders than that of definition fit as well")
