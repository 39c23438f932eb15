"""Masks that were seen, told by the places that they choose."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from paralign.locate.provenance.values.seen_values import Seen
from paralign.worker.instrumentation.value_marks import order_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from paralign.locate.provenance.values.value_graph import Expression

#: elements of a mask from which on its places tell it from others
MASKING = 16


class SeenMasks(Seen):
    """Values that were seen; masks by the places that they choose, or leave out.

    A mask of a size of which none was seen is judged as any other value.
    """

    def __init__(self, expressions: Iterable[Expression], numbers: Iterable[float] = ()) -> None:
        held = list(expressions)
        super().__init__(held, numbers)
        self._orders: dict[int, list[list[float]]] = defaultdict(list)
        for each in filter(is_mask, held):
            self._orders[each.size] += [each.mark[2], _turned(each)]

    def has(self, each: Expression) -> bool | None:
        """Whether a value was seen; None for what cannot be told."""
        if not is_mask(each) or each.size not in self._orders:
            return super().has(each)
        return bool(np.any(np.all(np.isclose(self._orders[each.size], each.mark[2], rtol=1e-4, atol=1e-5), axis=1)))


def is_mask(each: Expression) -> bool:
    """Whether an array of some size holds zeros and ones, both of them."""
    return bool(each.mark[0] == "a") and each.size >= MASKING and each.numbers is not None and np.array_equal(each.numbers, [0.0, 1.0])


def _turned(mask: Expression) -> list[float]:
    """What tells the order of a mask the other way round."""
    ones, *sums = mask.mark[2]
    whole, own, left = math.sqrt(mask.size), ones * math.sqrt(mask.size), math.sqrt(mask.size * (1 - ones**2))
    full = order_of(np.ones(mask.size))[1:]
    return [left / whole, *((all_of * whole - part * own) / left for all_of, part in zip(full, sums, strict=True))]
