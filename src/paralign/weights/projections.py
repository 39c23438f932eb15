"""Fused projections: which tensors hold several Linear layers, and how they come apart."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

from paralign.weights.names import read, roles
from paralign.weights.tensors import MATRIX, joined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paralign.weights.tensors import Tensor

#: last words of a path -> the roles of what is fused there, where the words do not name them
NAMED = {("c", "attn"): "qkv", ("in", "fc"): "qkv"}

#: what to take of the first and of the second axis
AXES = ("rows", "columns")

QKV, KV, GATED = ("q", "k", "v"), ("k", "v"), ("gate", "up")


def parts_of(tensor: Tensor) -> tuple[str, ...]:
    """The roles that a tensor fuses, in the usual order; empty for all others."""
    if tensor.kind not in ("linear", "") or tensor.leaf not in ("weight", "bias") or len(tensor.shape) > MATRIX or not tensor.shape:
        return ()
    words = read(tensor.owner.rpartition(".")[2]).words
    if words in NAMED:
        return QKV
    spoken = set(words)
    for family in (QKV, KV, GATED):
        if spoken >= set(family):
            return family
    return ()


def split(mine: list[Tensor], other: Sequence[Tensor], placed: set[Tensor]) -> list[Tensor]:
    """A side's tensors, fused ones taken apart where the other side has separate ones.

    Args:
        mine: tensors of one side.
        other: those of the other side.
        placed: tensors that have their twin already and stay as they are.
    """
    whole = {parts_of(t) for t in other if t not in placed}
    found: list[Tensor] = []
    for tensor in mine:
        family: tuple[str, ...] = ()
        if tensor not in placed:
            family = parts_of(tensor) or _guessed(tensor, other, placed)
        family = _actual(family, tensor, mine)
        if not family or family in whole or not all(_separate(role, family, other) for role in family):
            found.append(tensor)
            continue
        sizes = _sizes(tensor, family, other)
        if not sizes:
            found.append(tensor)
            continue
        parent = tensor.owner.rpartition(".")[0]
        found += cut(tensor, [joined(parent, f"{role}_proj") for role in family], sizes, family)
    return found


def _guessed(tensor: Tensor, other: Sequence[Tensor], placed: set[Tensor]) -> tuple[str, ...]:
    """What an unnamed Linear layer may fuse, by the rows of the other side's layers."""
    if tensor.kind not in ("linear", "") or tensor.leaf not in ("weight", "bias"):
        return ()
    if not 1 <= len(tensor.shape) <= MATRIX:
        return ()
    if any(t.shape == tensor.shape and t.leaf == tensor.leaf for t in other if t not in placed):
        return ()
    beside = [t for t in other if t not in placed and (t.leaf, t.shape[1:]) == (tensor.leaf, tensor.shape[1:])]
    for family in (QKV, KV, GATED):
        rows = [{t.shape[0] for t in beside if _speaks(t, role, family)} for role in family]
        if any(sum(sizes) == tensor.shape[0] for sizes in product(*rows)):
            return family
    return ()


def _speaks(tensor: Tensor, role: str, family: tuple[str, ...]) -> bool:
    return set(read(tensor.owner.rpartition(".")[2]).words) & set(family) == {role}


def _actual(family: tuple[str, ...], tensor: Tensor, mine: Sequence[Tensor]) -> tuple[str, ...]:
    """GPT-2's cross attention has its query apart: its ``c_attn`` holds key and value only."""
    if family != QKV:
        return family
    parent = tensor.owner.rpartition(".")[0]
    for other in mine:
        if other.leaf != tensor.leaf or other.owner == tensor.owner:
            continue
        beside, _, name = other.owner.rpartition(".")
        if beside == parent and roles(name) == {"q"}:
            return KV
    return family


def _separate(role: str, family: tuple[str, ...], other: Sequence[Tensor]) -> bool:
    return any(_speaks(t, role, family) for t in other)


def _sizes(tensor: Tensor, family: tuple[str, ...], other: Sequence[Tensor]) -> tuple[int, ...]:
    """How many rows each part has: as on the other side, else equally many."""
    rows = tensor.shape[0]
    if family == QKV:
        seen = {
            role: {t.shape[0] for t in other if t.leaf == tensor.leaf and t.shape[1:] == tensor.shape[1:] and _speaks(t, role, QKV)}
            for role in "qk"
        }
        for queries in sorted(seen["q"], reverse=True):
            for keys in sorted(seen["k"], reverse=True):
                if queries + 2 * keys == rows:
                    return queries, keys, keys
    return (rows // len(family),) * len(family) if rows % len(family) == 0 else ()


def cut(tensor: Tensor, owners: Sequence[str], sizes: Sequence[int], called: Sequence[str] = (), axis: int = 0) -> list[Tensor]:
    """The parts of a fused tensor, one after the other.

    Args:
        tensor: what is to be taken apart.
        owners: the module that each part would belong to.
        sizes: the rows (or columns) of each.
        called: what to call each; by number where nothing is given.
        axis: 0 for rows, 1 for columns.
    """
    parts, at = [], 0
    for number, (owner, size) in enumerate(zip(owners, sizes, strict=True)):
        parts.append(
            replace(
                tensor,
                owner=owner,
                kind=tensor.kind or "linear",
                shape=(*tensor.shape[:axis], size, *tensor.shape[axis + 1 :]),
                called=f"{tensor.called}[{called[number] if called else number}]",
                part=f"{AXES[axis]}({at}, {at + size})",
                sizes=tuple(sizes),
                number=number,
            )
        )
        at += size
    return parts


def by_head(tensor: Tensor, heads: int) -> str | None:
    """The part of a fused tensor whose heads each hold query, key and value.

    >>> from paralign.model import Record
    >>> from paralign.weights.tensors import Tensor
    >>> qkv = Record(0, "qkv", "", "", "float32", (12, 2))
    >>> by_head(Tensor(qkv, "qkv", "linear", "weight", (0, 1), (4, 2), "qkv", "qkv", sizes=(4, 4, 4), number=1), 2)
    'heads(2, 3, 1)'
    """
    slot = math.gcd(*tensor.sizes)
    if slot % heads:
        return None
    slots = [size // slot for size in tensor.sizes]
    first = sum(slots[: tensor.number])
    last = f", {first + slots[tensor.number]}" if slots[tensor.number] > 1 else ""
    return f"heads({heads}, {sum(slots)}, {first}{last})"
