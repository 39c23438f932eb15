"""Find equal values by digest without looking at all of them."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Generic, TypeVar

from paralign.capture.digest import agree, size_and_rms
from paralign.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

Item = TypeVar("Item")


class Values(Generic[Item]):
    """Items by the digest of the value that they stand for.

    Digests are kept in cells of equal size and nearly equal root mean square, so that a search compares a handful of
    digests however many there are.

    Args:
        tolerance: as for :func:`paralign.capture.digest.agree`; at least 0 and below 1.

    Raises:
        UsageError: another tolerance.
    """

    def __init__(self, tolerance: float) -> None:
        if not 0 <= tolerance < 1:
            raise UsageError(f"values cannot be told apart with a tolerance of {tolerance}", hint="take one between 0 and 1, such as 1e-6")
        self._tolerance = tolerance
        self._width = max(-2 * math.log1p(-tolerance), 1e-9)  # values that agree lie in one cell or in neighbours
        self._cells: dict[tuple[float, float], dict[str, list[Item]]] = defaultdict(dict)

    def add(self, digest: str, item: Item) -> None:
        """Add an item; several may have one digest."""
        size, cell = self._cell(digest)
        self._cells[size, cell].setdefault(digest, []).append(item)

    def find(self, digest: str) -> list[Item]:
        """The items whose digests agree, those of one digest in order of addition."""
        found: list[Item] = []
        for items in self._agreeing(digest):
            found += items
        return found

    def _agreeing(self, digest: str) -> Iterator[list[Item]]:
        """The items of each digest that agrees with one."""
        size, cell = self._cell(digest)
        for place in {cell - 1, cell, cell + 1}:  # one and the same where cells are infinite
            for known, items in self._cells.get((size, place), {}).items():
                if known == digest or agree(known, digest, self._tolerance):
                    yield items

    def __contains__(self, digest: str) -> bool:
        return any(True for _ in self._agreeing(digest))

    def _cell(self, digest: str) -> tuple[float, float]:
        size, rms = size_and_rms(digest)
        return size, math.floor(math.log(rms) / self._width) if rms > 0 else -math.inf
