"""Operations of PyTorch that Paddle spells otherwise: said by name where one of them is at fault."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paralign.model import Divergence, StageResult


@dataclass(frozen=True)
class Equivalent:
    """What PyTorch's operation is in Paddle.

    Args:
        operations: PyTorch's own names, without namespace and overload.
        said: what it is in Paddle, and what it is taken for.
    """

    operations: frozenset[str]
    said: str


#: the guides' frequently asked questions; what they name is there in Paddle 3.3.1
EQUIVALENTS = (
    Equivalent(
        frozenset({"gather", "take_along_dim"}),
        "torch.gather takes an index for every element: in Paddle paddle.take_along_axis(x, index, axis); paddle.gather takes whole rows",
    ),
    Equivalent(
        frozenset({"scatter", "scatter_", "scatter_add", "scatter_add_"}),
        "torch.scatter places single elements: in Paddle paddle.put_along_axis(x, index, values, axis); paddle.scatter places whole rows",
    ),
    Equivalent(
        frozenset({"masked_fill", "masked_fill_"}),
        "masked_fill fills where the mask is True: in Paddle x.masked_fill(mask, value) or "
        "paddle.where(mask, paddle.full_like(x, value), x), in this order",
    ),
    Equivalent(
        frozenset({"_pack_padded_sequence", "_pad_packed_sequence", "_pack_padded_sequence_backward"}),
        "Paddle has no pack_padded_sequence: give the recurrent layer sequence_length=lengths, "
        "which leaves outputs behind a sequence's end zero and takes the state at its end",
    ),
    Equivalent(
        frozenset({"avg_pool1d", "avg_pool2d", "avg_pool3d"}),
        "PyTorch's average counts the padding (count_include_pad=True), Paddle's does not: exclusive=False makes Paddle count it",
    ),
)


def equivalent(operation: str) -> str | None:
    """What an operation of PyTorch is in Paddle, where the guides say so.

    >>> equivalent("aten.gather.default")[:12]
    'torch.gather'
    """
    name = operation.split(".")[1] if operation.startswith("aten.") else operation
    return next((each.said for each in EQUIVALENTS if name in each.operations), None)


def say(result: StageResult) -> None:
    """Add to each divergence what the reference's operation is in Paddle, where one of the guides' questions speaks of it."""
    for divergence in dict.fromkeys(id(d) for d in result.divergences):
        _say(next(d for d in result.divergences if id(d) == divergence))


def _say(divergence: Divergence) -> None:
    point = divergence.reference
    said = None if point is None else equivalent(point.op)
    if said is not None and said not in divergence.notes:
        divergence.notes.append(said)
