"""Own tensors that stack those of several equal layers: experts, blocks, levels."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from paralign.weights.names import read
from paralign.weights.tensors import MATRIX, bare, joined
from paralign.weights.transforms import compose

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from paralign.weights.tensors import Tensor

    Shape = tuple[int, ...]

_TURN = "transpose(1, 0)"

#: words in the names of a complex weight's parts
REAL, IMAGINARY = ("real", "re"), ("imag", "imaginary", "im")

#: and how many there are
COMPLEX = 2


def taken_apart(mine: Sequence[Tensor], others: Sequence[Tensor], free: set[Tensor]) -> list[Tensor]:
    """The tensors of a side, with stacks as the tensors that the other side has for them.

    A stack of ``n`` is known by its shape: ``n`` tensors of one kind, name and shape for each of as many stacks are more on the other side
    than here, and of the stacks' own shape there are more here. Where several kinds fit (a matrix may lie either way), stacks of one
    layer take them in order.

    Args:
        mine: tensors of one side.
        others: those of the other side.
        free: tensors of both sides that have no twin yet.
    """
    own = [t for t in mine if t in free]
    their = [t for t in others if t in free]
    layers: dict[tuple[str, str, Shape], list[Tensor]] = defaultdict(list)
    for tensor in their:
        if not tensor.part:
            layers[tensor.kind, tensor.leaf, tensor.shape].append(tensor)
    stacks = Counter(t.shape for t in own if _may_be(t))
    here, there = (Counter(bare(t.shape) for t in side) for side in (own, their))
    alike = Counter((t.kind, t.leaf, t.shape) for t in own)
    fitting: dict[Tensor, list[Tensor]] = {}
    for tensor in own:
        shape = bare(tensor.shape)
        if not _may_be(tensor) or here[shape] - there[shape] < stacks[tensor.shape]:
            continue
        count = tensor.shape[0] * stacks[tensor.shape]
        as_many = [group[0] for key, group in layers.items() if len(group) - alike[key] == count]
        fitting[tensor] = [t for t in as_many if there[bare(t.shape)] - here[bare(t.shape)] >= count and _way(tensor, t) is not None]
    return _in_turn(mine, _chosen(fitting))


def _chosen(fitting: dict[Tensor, list[Tensor]]) -> dict[Tensor, Tensor]:
    """A tensor of the other side for each stack.

    It is the only one that fits, or the one at its place.

    Stacks of one layer that several tensors fit take these in order, where they are as many.
    """
    chosen = {stack: layers[0] for stack, layers in fitting.items() if len(layers) == 1}
    unsure: dict[tuple[str, tuple[Tensor, ...]], list[Tensor]] = defaultdict(list)
    for stack, layers in fitting.items():
        if len(layers) > 1:
            unsure[stack.owner, tuple(layers)].append(stack)
    for (owner, kinds), stacks in unsure.items():
        if len(kinds) == len(stacks):
            singles = [layer.owner for stack, layer in chosen.items() if stack.owner == owner]
            chosen.update(zip(stacks, _in_order_of(kinds, singles), strict=True))
    return chosen


def _in_order_of(kinds: Sequence[Tensor], owners: list[str]) -> Sequence[Tensor]:
    """Tensors in the order of known layers, those of biases; else as they come."""
    if sorted(kind.owner for kind in kinds) != sorted(owners):
        return kinds
    return sorted(kinds, key=lambda kind: owners.index(kind.owner))


def _in_turn(tensors: Sequence[Tensor], likes: dict[Tensor, Tensor]) -> list[Tensor]:
    """Stacks taken apart by turns: the first of each, then the second of each."""
    together: dict[Hashable, list[Tensor]] = defaultdict(list)
    for tensor in likes:
        together[tensor.owner, tensor.shape[0]].append(tensor)
    found: list[Tensor] = []
    for tensor in tensors:
        if tensor not in likes:
            found.append(tensor)
            continue
        stacks = together.pop((tensor.owner, tensor.shape[0]), [])
        found += [_member(stack, likes[stack], number) for number in range(tensor.shape[0]) for stack in stacks]
    return found


def _may_be(tensor: Tensor) -> bool:
    if tensor.kind or tensor.part:
        return False
    return len(tensor.shape) >= MATRIX and tensor.shape[0] > 1


def _way(stack: Tensor, layer: Tensor) -> str | None:
    """From one entry of a stack to a layer's tensor in the neutral layout.

    None where there is none.

    A product by hand usually has inputs by outputs, which turns a square matrix as well; :func:`turned` is the other way.
    """
    entry = bare(stack.shape[1:])
    matrix = layer.kind == "linear" and len(layer.shape) == MATRIX
    if matrix and entry == bare(layer.shape[::-1]):
        return f"{_reshape(layer.shape[::-1])} then {_TURN}"
    return _reshape(layer.shape) if entry == bare(layer.shape) else None


def _reshape(shape: Shape) -> str:
    return f"reshape({', '.join(map(str, shape))})"


def _member(stack: Tensor, layer: Tensor, number: int) -> Tensor:
    return replace(
        stack,
        owner=f"{joined(stack.owner, stack.leaf)}.{number}",
        kind=layer.kind,
        leaf=layer.leaf,
        shape=layer.shape,
        called=f"{stack.called}[{number}]",
        part=compose(f"rows({number}, {number + 1})", _way(stack, layer)),
    )


def beside_each_other(mine: Sequence[Tensor], others: Sequence[Tensor], free: set[Tensor]) -> list[Tensor]:
    """A side's tensors, those apart whose last axis the other side has as several.

    A complex weight is kept so: as ``(…, 2)``, or as its real and its imaginary part, whose names say which is which. A tensor of the
    user's own is taken apart where the other side has as many layers as there are such tensors here, each with two of that shape, and
    neither side has others like them.

    Args:
        mine: tensors of one side.
        others: those of the other side.
        free: tensors of both sides that have no twin yet.
    """
    own = [t for t in mine if t in free]
    layers: dict[tuple[str, Shape], list[Tensor]] = defaultdict(list)
    for tensor in others:
        if tensor in free and not tensor.kind and not tensor.part:
            layers[tensor.owner, tensor.shape].append(tensor)
    here, there = (Counter(t.shape for t in side if t in free and not t.kind) for side in (mine, others))
    likes: dict[Shape, list[Tensor]] = {}
    for shape in {t.shape for t in own if _may_be_beside(t)}:
        groups = [group for (_, entry), group in layers.items() if entry == shape[:-1] and len(group) == shape[-1]]
        is_even = here[shape] == len(groups) and there[shape[:-1]] == len(groups) * shape[-1]
        entries = _real_first(groups[0]) if groups and shape[-1] == COMPLEX else []
        if is_even and entries and not here[shape[:-1]] and not there[shape]:
            likes[shape] = entries
    found: list[Tensor] = []
    for tensor in mine:
        known = likes.get(tensor.shape) if tensor in free and _may_be_beside(tensor) else None
        found += [tensor] if known is None else [_entry(tensor, entry.leaf, number) for number, entry in enumerate(known)]
    return found


def _real_first(tensors: list[Tensor]) -> list[Tensor]:
    """Two tensors whose names say real and imaginary part, in this order; else none."""
    firsts = [t for t in tensors if any(_says(t.leaf, word) for word in REAL)]
    seconds = [t for t in tensors if any(_says(t.leaf, word) for word in IMAGINARY)]
    if len(firsts) == len(seconds) == 1 and firsts[0] is not seconds[0]:
        return [firsts[0], seconds[0]]
    return []


def _says(name: str, word: str) -> bool:
    """Whether a name has a word in it."""
    return word in read(name).words


def _may_be_beside(tensor: Tensor) -> bool:
    """Whether a tensor of the user's own may hold others along its last axis."""
    if tensor.kind or tensor.part:
        return False
    return len(tensor.shape) >= MATRIX and tensor.shape[-1] > 1


def _entry(tensor: Tensor, leaf: str, number: int) -> Tensor:
    """What a tensor holds at one place of its last axis."""
    last = len(tensor.shape) - 1
    first = f"transpose({', '.join(map(str, (last, *range(last))))})"
    return replace(
        tensor,
        owner=joined(tensor.owner, tensor.leaf) if tensor.leaf else tensor.owner,
        leaf=leaf,
        shape=tensor.shape[:-1],
        called=f"{tensor.called}[{number}]",
        part=compose(first, f"rows({number}, {number + 1})", _reshape(tensor.shape[:-1])),
    )


def turned(tensor: Tensor) -> Tensor | None:
    """A square matrix of a stack that lies the other way; None for all other tensors."""
    if tensor.kind != "linear" or tensor.sizes or not (tensor.part or "").startswith("rows("):
        return None
    if len(tensor.shape) != MATRIX or tensor.shape[0] != tensor.shape[1]:
        return None
    return replace(tensor, part=compose(tensor.part, _TURN))
