"""What costly operations made, for experiments that make it again.

An experiment runs a model with one value changed: whatever does not hang on that value is computed as before. A convolution or a matrix
product of inputs with the same bytes is taken from the run before. Everything else is computed: it costs little.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Optional, Sequence, Tuple

import numpy as np

from paralign.worker.values.fingerprints import key_of

if TYPE_CHECKING:
    from paralign.dtypes import Typed
    from paralign.worker.values.fingerprints import Key

#: bytes of results that are kept: those of all convolutions of ResNet-50 with two samples in float64 take 180 MB
BUDGET = 256 << 20

#: kinds of operations that cost more than a hash of their inputs and a copy of their result
COSTLY = frozenset({"convolution", "convolution_transpose", "matmul"})

#: number of the operation, its name, its other arguments, and what its inputs are known by: bytes, shape, whether they lie transposed
Cause = Tuple[int, str, str, Tuple["Taken", ...]]
Taken = Tuple["Key", Tuple[int, ...], bool]


class KnownResults:
    """Results by what they were made of."""

    def __init__(self, budget: int = BUDGET) -> None:
        self._budget, self._kept = budget, 0
        self._known: Dict[Cause, Typed] = {}

    def __len__(self) -> int:
        return len(self._known)

    def clear(self) -> None:
        """Forget everything."""
        self._known.clear()
        self._kept = 0

    def find(self, cause: Cause) -> Optional[Typed]:
        """What was made of it, None where that is not known; not to be changed in place."""
        return self._known.get(cause)

    def keep(self, cause: Cause, value: Typed) -> None:
        """Remember a copy of a result, as long as there is room.

        None whose elements do not lie in order: as a tensor again, they would, and the next operation could round otherwise.
        """
        array = value.array
        if cause in self._known or not array.flags.c_contiguous or self._kept + array.nbytes > self._budget:
            return
        self._known[cause] = value._replace(array=np.array(array))
        self._kept += array.nbytes


def taken(value: Typed, key: "Optional[Key]" = None) -> Optional[Taken]:
    """What an input is known by.

    Its axes may be in reverse order, as those of a transposed matrix are. None where its elements lie in another order, or are none of
    bytes. ``key`` spares a look at the bytes where it is known.
    """
    shape, array = tuple(value.array.shape), value.array
    if key is None:
        key = key_of(value)
    if key is not None:
        return key, shape, False
    key = key_of(value._replace(array=array.T))
    return None if key is None else (key, shape, True)


def cause_of(number: int, op: str, settings: Dict[str, Any], inputs: "Sequence[Optional[Taken]]") -> Optional[Cause]:
    """What a result is known by; None where an input cannot be told by its bytes.

    >>> from paralign.dtypes import typed
    >>> matrix = taken(typed(np.ones((2, 3))))
    >>> cause_of(3, "mm", {"alpha": 1}, [matrix]) == cause_of(3, "mm", {"alpha": 2}, [matrix])
    False
    """
    known = tuple(each for each in inputs if each is not None)
    return (number, op, repr(sorted(settings.items())), known) if len(known) == len(inputs) else None
