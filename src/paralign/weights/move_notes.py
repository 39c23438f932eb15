"""What is said of a tensor that has a place, or has none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.weights.tensors import linear_twins

if TYPE_CHECKING:
    from paralign.weights.likeness import Unit
    from paralign.weights.tensors import Tensor


def note_of(reference: Tensor, candidate: Tensor, transform: str | None) -> str:
    """In what two tensors that go together differ, and what was taken for granted."""
    ours, theirs = reference.record, candidate.record
    compared = [
        ("role", ours.role, theirs.role),
        ("element type", ours.dtype, theirs.dtype),
        ("trainable", ours.attrs.get("trainable", True), theirs.attrs.get("trainable", True)),
    ]
    if reference.kind != candidate.kind:
        compared.append(("layer", _layer_name(reference), _layer_name(candidate)))
    said = [f"{what}: {one} in the reference, {other} in the candidate" for what, one, other in compared if one != other]
    turned = reference.kind == candidate.kind or linear_twins(reference, candidate) or "transpose" in (transform or "")
    if not turned and reference.axes != candidate.axes and not (reference.part or candidate.part):
        said.append("taken as it is, not transposed")
    return "; ".join([*said, *dict.fromkeys(filter(None, (reference.note, candidate.note)))])


def described(tensor: Tensor) -> str:
    """The layer, leaf and shape of a tensor, in words."""
    return f"layer {_layer_name(tensor)}, leaf {tensor.leaf!r} and shape {tuple(tensor.record.shape)}"


def several_like(units: list[Unit]) -> str:
    """Of layers that are alike, in words: their number and their tensors."""
    first = units[0].tensors
    return (
        f"{len(units)} times layer {_layer_name(first[0])} with "
        + ", ".join(f"{t.leaf} {tuple(t.record.shape)}" for t in first)
        + ": other orders than that of definition fit as well"
    )


def _layer_name(tensor: Tensor) -> str:
    return tensor.record.attrs.get("kind") or "one of the user's own"
