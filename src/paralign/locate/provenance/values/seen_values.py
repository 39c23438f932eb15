"""Which values one side has among its expressions: numbers, texts, arrays in their order."""

from __future__ import annotations

import math
from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.dtypes import STORAGE
from paralign.locate.provenance.values.value_graph import COMMON, SHORT, Expression

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    Numbers = npt.NDArray[np.float64]


#: relative difference up to which numbers are one: float32 rounding that a few operations gather
SAME = 5e-6

#: distinct numbers of an array beyond which it counts as seen only as a whole: among so many, any number has a neighbour by chance
DENSE = 4_096


def _alike(numbers: Numbers, part: Numbers) -> bool:
    """Whether two values have the same numbers, but for what float32 rounds."""
    size = float(np.max(np.abs(part))) if numbers.size > 1 else float(np.abs(part[0]))
    return bool(np.all(np.abs(numbers - part) <= SAME * size))


class _OfOneSize:
    """Values of as many numbers each: whether one is like another is asked of few of them."""

    def __init__(self) -> None:
        self.parts: list[Numbers] = []
        self._edges: tuple[Numbers, Numbers, Numbers] | None = None

    def add(self, part: Numbers) -> None:
        """Take another value."""
        self.parts.append(part)
        self._edges = None

    def has(self, numbers: Numbers) -> bool:
        """Whether a value has the same numbers, but for what float32 rounds."""
        if not numbers.size:
            return bool(self.parts)
        if self._edges is None:
            sizes = np.array([np.max(np.abs(part)) for part in self.parts])
            self._edges = np.array([part[0] for part in self.parts]), np.array([part[-1] for part in self.parts]), SAME * sizes
        first, last, near = self._edges
        places = np.flatnonzero((np.abs(numbers[0] - first) <= near) & (np.abs(numbers[-1] - last) <= near))
        return any(_alike(numbers, self.parts[place]) for place in places)


#: how names of files with settings, data or weights end
_FILES = (".json", ".ini", ".cfg", ".toml", ".yaml", ".yml", ".txt", ".csv", ".npy", ".npz", ".pt", ".pth", ".pdparams", ".safetensors")


#: signs of patterns (``re``) that paths with backslashes hardly have
_OF_PATTERNS = frozenset("[]()*+?^$|{}")


def _is_path(text: str) -> bool:
    """Whether a text names a file or folder: these are each side's own matter.

    Backslashes stand in paths, and in patterns that other signs tell from these.
    """
    if text.lower().endswith(_FILES):
        return True
    return "/" in text if "\\" not in text else _OF_PATTERNS.isdisjoint(text)


class Seen:
    """The values of some expressions: numbers, texts, arrays in their order.

    Args:
        expressions: whose values count.
        numbers: that count besides.
    """

    def __init__(self, expressions: Iterable[Expression], numbers: Iterable[float] = ()) -> None:
        self._whole: dict[int, _OfOneSize] = defaultdict(_OfOneSize)
        self.texts: set[str] = set()
        marks: dict[str, list[list[Any]]] = defaultdict(list)
        few: list[Numbers] = [np.array(list(numbers), float)]
        for each in expressions:
            marks[each.mark[0]].append(each.mark)
            if isinstance(each.scalar, str):
                self.texts.add(each.scalar)
            if each.numbers is None:
                continue
            self._whole[each.numbers.size].add(each.numbers)
            if each.numbers.size <= DENSE:
                few.append(each.numbers)
        self.numbers: Numbers = np.unique(np.concatenate(few))
        self.names = {mark[1] for mark in marks["k"]}
        self._arrays = marks["a"]
        self._without_numbers = {math.prod(mark[1]) for mark in self._arrays if mark[3] is None}
        self._lists = [mark[1] for mark in marks["l"]]

    def has_numbers(self, numbers: Numbers) -> bool:
        """Whether every number was seen."""
        if not self.numbers.size:
            return numbers.size == 0
        if numbers.size in self._whole and self._whole[numbers.size].has(numbers):
            return True
        place = np.searchsorted(self.numbers, numbers)
        near = [self.numbers[np.clip(place + step, 0, self.numbers.size - 1)] for step in (-1, 0)]
        far = np.minimum(*(np.abs(each - numbers) for each in near))
        return bool(np.all(far <= SAME * np.abs(numbers) + 1e-12))

    def has(self, each: Expression) -> bool | None:
        """Whether a value was seen; None for objects and few common numbers."""
        if isinstance(each.scalar, str):
            return each.scalar in self.texts or each.scalar in STORAGE or _is_path(each.scalar)
        if each.mark[0] == "a" and each.mark[3] is None:
            return self._has_sketch(each)
        if each.numbers is None or each.numbers.size == 0:
            return None
        found = self.has_numbers(each.numbers) and not self._has_variant(each)
        if not found and each.mark[0] == "a" and each.size in self._without_numbers:
            found = self.has_ordered(each)
        return True if not found and each.mark[0] == "s" and each.scalar in COMMON else found

    def _has_sketch(self, each: Expression) -> bool | None:
        """Whether an array without numbers was seen: there was room for a sketch of it only.

        None where no other array has its size, or it is not finite.
        """
        if not math.isfinite(each.rms) or not any(math.prod(mark[1]) == each.size for mark in self._arrays):
            return None
        return self.has_ordered(each) or self.has_rearranged(each)

    def _has_variant(self, each: Expression) -> bool:
        """Whether a short list was seen with some of its numbers exchanged."""
        numbers = each.numbers
        if numbers is None or each.mark[0] == "s" or not 1 < numbers.size <= SHORT or bool(np.all(numbers == np.round(numbers))):
            return False
        if numbers.size not in self._whole or self._whole[numbers.size].has(numbers):
            return False
        for part in self._whole[numbers.size].parts:
            nearest = np.min(np.abs(part[:, None] - numbers), axis=1)
            if 2 * int(np.sum(nearest <= SAME * np.abs(part))) >= numbers.size:
                return True
        return False

    def has_ordered(self, each: Expression) -> bool:
        """Whether an array was seen with its elements in the same order."""
        if each.mark[0] != "a":
            return each.mark[0] == "l" and each.mark[1] in self._lists
        alike = self._orders_of_size.get(math.prod(each.mark[1]))
        if alike is None:
            return False
        order = np.asarray(each.mark[2], float)
        near = np.abs(alike - order) <= 1e-5 + 1e-4 * np.abs(order)
        return bool(np.any(np.all(near | (alike == order), axis=1)))  # infinite ones are equal or not

    @cached_property
    def _orders_of_size(self) -> dict[int, Numbers]:
        """Number of elements -> the figures of arrays of that size, a row each.

        They depend on the order of the elements.
        """
        found: dict[int, list[list[float]]] = defaultdict(list)
        for mark in self._arrays:
            found[math.prod(mark[1])].append(mark[2])
        return {size: np.array(rows, float) for size, rows in found.items()}

    def has_rearranged(self, each: Expression) -> bool:
        """Whether an array of this size and root mean square was seen, in whatever order."""
        alike = self._orders_of_size.get(math.prod(each.mark[1]))
        return alike is not None and any(math.isclose(size, each.mark[2][0], rel_tol=1e-4) for size in alike[:, 0].tolist())


class Texts:
    """The texts that some expressions have, alone and in lists."""

    def __init__(self, expressions: Iterable[Expression]) -> None:
        marks = [e.mark for e in expressions if e.mark[0] in ("s", "l")]
        self._known = {text for mark in marks for text in _listed(mark) if isinstance(text, str)}

    def has(self, each: Expression) -> bool:
        """Whether a value is one of these texts, or a list of nothing else."""
        listed = _listed(each.mark) if each.mark[0] in ("s", "l") else []
        return bool(listed) and all(isinstance(text, str) and text in self._known for text in listed)


def _listed(mark: list[Any]) -> list[Any]:
    """What a list holds; a scalar is a list of one."""
    return list(mark[1]) if mark[0] == "l" else [mark[1]]


class SeenApart(Seen):
    """Values that were seen, plain numbers apart from the elements of arrays.

    A tensor of one computed number is such a number: among the elements of large arrays it has a neighbour by chance.
    """

    def __init__(self, expressions: Sequence[Expression]) -> None:
        super().__init__(expressions)
        self._plain = Seen([e for e in expressions if e.mark[0] != "a"])
        self._single = Seen([e for e in expressions if e.size == 1])

    def has(self, each: Expression) -> bool | None:
        """Whether a value was seen; None for what cannot be told."""
        if each.mark[0] != "a":
            return self._plain.has(each)
        if each.size == 1 and each.uncopied.kind == "operation":
            return self._single.has(each)
        return super().has(each)
