"""State records in neutral terms: the layer, names and part of each tensor."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from paralign.errors import UsageError
from paralign.weights.layouts import CELLS, PARAMETRISATIONS, layer, layout, neutral_leaf
from paralign.weights.transforms import compose, inverse, keeps, permuted, reached, transpose, undone

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paralign.model import Record

#: the path of a cell inside a recurrent layer of Paddle: ``0.cell``, ``1.cell_bw``
_CELL = re.compile(r"(?:(?P<owner>.+)\.)?(?P<layer>\d+)\.cell(?P<way>_fw|_bw)?")

#: a weight of one layer and direction of a recurrent layer
_STACKED = re.compile(r"(?P<leaf>\w+?)_l(?P<layer>\d+)(?P<back>_reverse)?")

#: a weight or bias of a cell, and what it is multiplied with: the input or the state
_PRODUCT = re.compile(r"(?P<leaf>weight|bias)_(?P<of>ih|hh)")

#: what PyTorch's parametrisations hold: the parts of a leaf of the layer above
_PARAMETRISED = re.compile(r"(?:(?P<owner>.+)\.)?parametrizations\.(?P<leaf>\w+)(?:\.\d+)?\.(?P<part>original\d?|_u|_v)")

MATRIX = 2


@dataclass(frozen=True, eq=False)
class Tensor:
    """A record, or a part of one, in neutral terms.

    Args:
        record: as the side has it.
        owner: the module that it belongs to; for a part, the module that it would have if it were apart.
        kind: neutral kind of that module.
        leaf: neutral name inside it.
        axes: axes of the neutral layout in the order in which the record has them.
        shape: the neutral shape, of the part if it is one.
        root: the entry that holds the values (the record itself, or the one that it shares with).
        called: the full name, corrected where the framework mixes names up.
        part: what of the neutral layout it is; None for all.
        note: what was concluded rather than read.
        sizes: for a part of a fused tensor, the rows (or columns) of all of its parts.
        number: which of them it is.
    """

    record: Record
    owner: str
    kind: str
    leaf: str
    axes: tuple[int, ...]
    shape: tuple[int, ...]
    root: str
    called: str
    part: str | None = None
    note: str = ""
    sizes: tuple[int, ...] = ()
    number: int = 0

    @property
    def name(self) -> str:
        """The full state name, as the side has it."""
        return self.record.name

    @property
    def neutral_name(self) -> str:
        """Owner and neutral leaf."""
        return f"{self.owner}.{self.leaf}" if self.owner else self.leaf

    @property
    def place(self) -> tuple[str, str | None]:
        """What cannot be filled twice."""
        return self.root, self.part

    @cached_property
    def path(self) -> str | None:
        """The transform from the record to this tensor in the neutral layout."""
        return compose(transpose(inverse(self.axes)), self.part)


def read(records: Sequence[Record], framework: str, side: str) -> list[Tensor]:
    """All records of a side in neutral terms, in their order.

    Raises:
        UsageError: two records have the same name, or one shares with an entry that is not there.
    """
    names: set[str] = set()
    for record in records:
        if record.name in names:
            raise UsageError(
                f"the {side} has two tensors of this name",
                where=record.name,
                hint="hand over parameters and buffers of one model, each once",
            )
        names.add(record.name)
    shared = {record.name: record.attrs.get("shared") for record in records}
    found = [_unpacked(_tensor(record, framework, _root(record.name, shared, side))) for record in records]
    return _own_matrices(_cells(found))


def _tensor(record: Record, framework: str, root: str) -> Tensor:
    path, _, last = record.name.rpartition(".")
    owner, kind = record.attrs.get("owner", path), layer(record.attrs.get("kind") or "")
    leaf = record.attrs.get("leaf") or last
    made = _PARAMETRISED.fullmatch(f"{owner}.{leaf}")
    if made:
        owner, kind = made.group("owner") or "", layer(record.attrs.get("parametrises") or "")
        leaf = made.group("leaf") + PARAMETRISATIONS.get(made.group("part"), made.group("part"))
    leaf = neutral_leaf(kind, leaf)
    axes = layout(framework, kind, leaf, len(record.shape))
    return Tensor(record, owner, kind, leaf, axes, permuted(record.shape, inverse(axes)), root, record.name)


def _root(name: str, shared: dict[str, str | None], side: str) -> str:
    root = shared[name]
    if root is None:
        return name
    if shared.get(root, name) is not None:  # not there, or itself an alias
        raise UsageError(
            f"the {side} says that this tensor is shared with {root!r}, which is no tensor that holds values of its own",
            where=name,
            hint="record the weights of the whole model again",
        )
    return root


def _unpacked(tensor: Tensor) -> Tensor:
    """The projections of PyTorch's MultiheadAttention as Linear layers."""
    found = re.fullmatch(r"(in_proj|q_proj|k_proj|v_proj)_(weight|bias)", tensor.leaf)
    if tensor.kind != "multiheadattention" or found is None:
        return tensor
    return replace(tensor, owner=joined(tensor.owner, found.group(1)), kind="linear", leaf=found.group(2))


def _cells(tensors: list[Tensor]) -> list[Tensor]:
    """Recurrent weights under the cell that uses them, not Paddle's second name.

    With ``proj_size`` that list of names runs out of step with the weights: ``weight_ih_l0_reverse`` is a projection there.
    """
    stacks = {t.owner: t.kind for t in tensors if t.kind in CELLS}
    named = _named_by_cells(tensors, stacks)
    if not named:
        return tensors
    corrected = []
    for tensor in tensors:
        if tensor.root not in named:
            corrected.append(tensor)
            continue
        owner, leaf = named[tensor.root]
        turned = leaf.startswith("weight_hr")
        axes = (1, 0) if turned else tuple(range(len(tensor.shape)))
        found = replace(tensor, kind=stacks[owner], axes=axes, shape=permuted(tensor.record.shape, inverse(axes)))
        if tensor.name == tensor.root:
            found = replace(found, owner=owner, leaf=leaf, called=joined(owner, leaf))
        else:
            found = replace(found, called=tensor.name)
        corrected.append(found)
    return corrected


def _named_by_cells(tensors: list[Tensor], stacks: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Root of a cell's weight -> the recurrent layer that has it, and its name there.

    Args:
        tensors: of one side.
        stacks: recurrent layer -> its kind.
    """
    named: dict[str, tuple[str, str]] = {}
    for tensor in tensors:
        found = _CELL.fullmatch(tensor.owner)
        if not found:
            continue
        owner = found.group("owner") or ""
        if CELLS.get(stacks.get(owner, "")) != tensor.kind:
            continue
        way = "_reverse" if found.group("way") == "_bw" else ""
        named[tensor.root] = owner, f"{tensor.leaf}_l{found.group('layer')}{way}"
    return named


def as_cell(tensor: Tensor) -> Tensor:
    """A recurrent layer's weight under the name of the cell that it would be."""
    found = _STACKED.fullmatch(tensor.leaf) if tensor.kind in CELLS else None
    if found is None:
        return tensor
    cell = "cell_bw" if found.group("back") else "cell"
    return replace(tensor, owner=joined(tensor.owner, f"{found.group('layer')}.{cell}"), kind=CELLS[tensor.kind], leaf=found.group("leaf"))


def as_products(tensor: Tensor) -> Tensor:
    """A recurrent cell's weight as that of one of two Linear layers, input and state."""
    found = _PRODUCT.fullmatch(tensor.leaf) if tensor.kind in CELLS.values() else None
    if found is None:
        return tensor
    owner, leaf = joined(tensor.owner, found.group("of")), found.group("leaf")
    return replace(tensor, owner=owner, kind="linear", leaf=leaf, called=joined(owner, leaf), note="a cell's product as a Linear layer")


def _own_matrices(tensors: list[Tensor]) -> list[Tensor]:
    """Own layers with a matrix and a bias as Linear layers, laid out by the bias.

    A bias has one element an output. Square matrices follow the others of the side, if those are all of one mind.
    """
    own = [t for t in tensors if not t.kind]
    biases = {t.owner: t.shape[0] for t in own if t.leaf == "bias" and len(t.shape) == 1}
    said: dict[str, tuple[int, int]] = {}
    square: list[str] = []
    for tensor in own:
        outputs = biases.get(tensor.owner)
        if tensor.leaf != "weight" or len(tensor.shape) != MATRIX or outputs not in tensor.shape:
            continue
        if tensor.shape[0] == tensor.shape[1]:
            square.append(tensor.owner)
        else:
            said[tensor.owner] = (0, 1) if outputs == tensor.shape[0] else (1, 0)
    if len(set(said.values())) == 1:
        said.update(dict.fromkeys(square, next(iter(said.values()))))
    return [as_linear(t, said[t.owner]) if t.owner in said and t.leaf in ("weight", "bias") else t for t in tensors]


def as_linear(tensor: Tensor, axes: tuple[int, int]) -> Tensor:
    """A tensor of an own layer as a Linear layer's, its matrix laid out as said."""
    if tensor.leaf == "bias":
        return replace(tensor, kind="linear")
    shape = permuted(tensor.record.shape, inverse(axes))
    order = "outputs by inputs" if axes == (0, 1) else "inputs by outputs"
    return replace(tensor, kind="linear", axes=axes, shape=shape, note=f"a matrix of the user's own, {order}")


def joined(owner: str, leaf: str) -> str:
    """Two parts of a path.

    >>> joined("a.b", "c"), joined("", "c")
    ('a.b.c', 'c')
    """
    return f"{owner}.{leaf}" if owner else leaf


def bare(shape: Sequence[int]) -> tuple[int, ...]:
    """A shape without its axes of length 1.

    >>> bare((1, 4, 1))
    (4,)
    """
    return tuple(n for n in shape if n != 1)


def route(reference: Tensor, candidate: Tensor) -> tuple[str | None, str | None]:
    """The transform of the reference's values, and the candidate's part that they fill.

    Where one of two whole tensors is of a layer of the user's own, what it means by its layout is not known: nothing is turned, unless
    it fits in no other way.
    """
    as_they_are = tuple(reference.record.shape), tuple(candidate.record.shape)
    if not _layouts_are_known(reference, candidate):
        fit_as_they_are = bare(as_they_are[0]) == bare(as_they_are[1])
        if fit_as_they_are or reference.shape != candidate.shape:
            return _reshaped(None, *as_they_are, patches=_own_kernel(reference, candidate)), None
    patches = linear_twins(reference, candidate) and bool(reference.shape) and bool(candidate.shape)
    flat = _flat_norm(reference, candidate) or _flat_own(reference, candidate)
    there = _reshaped(reference.path, reference.shape, candidate.shape, patches=patches, flat=flat)
    if keeps(candidate.path):
        return compose(there, undone(candidate.path, tuple(candidate.record.shape))), None
    return there, candidate.path


def _layouts_are_known(reference: Tensor, candidate: Tensor) -> bool:
    """Whether it is known how either tensor lies, so that one can be turned into the other."""
    if reference.kind == candidate.kind or reference.part or candidate.part:
        return True
    return linear_twins(reference, candidate)


def is_convolution(tensor: Tensor) -> bool:
    """Whether a tensor is of a convolution that is not transposed."""
    return tensor.kind.startswith("conv") and not tensor.kind.startswith("convtran")


def linear_twins(reference: Tensor, candidate: Tensor) -> bool:
    """Whether a Linear layer and a convolution may compute the same: by 1, or patches."""
    two = (reference, candidate)
    if not any(t.kind == "linear" for t in two):
        return False
    return any(is_convolution(t) for t in two)


def _own_kernel(reference: Tensor, candidate: Tensor) -> bool:
    """Whether one is a convolution's, the other an own one that may hold it flat."""
    if not reference.shape or not candidate.shape:
        return False
    two = (reference, candidate)
    if all(t.kind for t in two):
        return False
    return any(is_convolution(t) for t in two)


def _flat_norm(reference: Tensor, candidate: Tensor) -> bool:
    """Whether both are of layer norms over several axes.

    Paddle keeps the weights of these flat.
    """
    return reference.kind == candidate.kind == "layernorm" and math.prod(reference.shape) == math.prod(candidate.shape)


def _flat_own(reference: Tensor, candidate: Tensor) -> bool:
    """Whether two whole tensors of the user's own differ in axes that one of them joins."""
    if any(t.kind or t.part for t in (reference, candidate)):
        return False
    return joins_axes(reference.shape, candidate.shape) or joins_axes(candidate.shape, reference.shape)


def joins_axes(shape: Sequence[int], joined_shape: Sequence[int]) -> bool:
    """Whether a shape comes from another by joining neighbouring axes.

    >>> joins_axes((2, 8, 3), (16, 3)), joins_axes((2, 8), (8, 2)), joins_axes((2, 8), (2, 8))
    (True, False, False)
    """
    apart, wanted = list(bare(shape)), bare(joined_shape)
    if len(apart) <= len(wanted) or not wanted:
        return False
    for size in wanted:
        taken = 1
        while apart and taken < size:
            taken *= apart.pop(0)
        if taken != size:
            return False
    return not apart


def _reshaped(
    path: str | None, shape: tuple[int, ...], wanted: tuple[int, ...], *, patches: bool = False, flat: bool = False
) -> str | None:
    """A path with a reshape at its end, where that leads to the wanted shape."""
    if shape == wanted:
        return path
    alike = flat or bare(shape) == bare(wanted)
    if patches and not alike:
        kernel, other = ((n[0], math.prod(n[1:])) for n in (shape, wanted))
        alike = kernel == other
    if not alike:
        return path
    return compose(path, f"reshape({', '.join(map(str, wanted))})")


def fits(reference: Tensor, candidate: Tensor) -> bool:
    """Whether the reference's values can fill the candidate's place."""
    transform, into = route(reference, candidate)
    try:
        there = reached(transform, reference.record.shape)
        place = reached(into, candidate.record.shape)
    except UsageError:  # a transposition of another rank
        return False
    return there == place
