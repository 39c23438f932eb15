"""Host arrays on their way into a framework."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Sequence, Tuple

import numpy as np

from paralign.dtypes import RAW, STORAGE, Typed, is_complex, widen
from paralign.errors import UsageError

if TYPE_CHECKING:
    from paralign.adapters.base import Entry

#: element types that a model can be cast to -> the type that its complex tensors then have, None to leave them
FLOATING = {"float64": "complex128", "float32": "complex64", "float16": None, "bfloat16": None}


def fresh(value: Typed) -> "np.ndarray[Any, Any]":
    """The stored array in memory of its own: native byte order, contiguous, writable."""
    return np.array(value.array, dtype=STORAGE[value.dtype], order="C")


def converted(value: Typed, dtype: str) -> Typed:
    """The values as another element type, rounded to nearest.

    It is float32 where numpy lacks the type.
    """
    if value.dtype == dtype:
        return value
    target = "float32" if dtype in RAW else dtype
    with np.errstate(over="ignore", invalid="ignore"):  # what is too large becomes infinite, as in a framework
        return Typed(np.asarray(widen(value)).astype(STORAGE[target]), target)


def matched(
    entries: Sequence[Entry], values: Dict[str, Typed], describe: Callable[[Any], Tuple[Tuple[int, ...], str]]
) -> List[Tuple[Entry, Typed]]:
    """Each named entry with the values for it, checked before anything is written.

    ``describe`` gives shape and canonical dtype of a tensor.

    Raises:
        UsageError: a name that the model does not have, another shape, or complex values for a real entry.
    """
    named = {entry.name: entry for entry in entries}
    pairs = []
    for name, value in values.items():
        if name not in named:
            near = get_close_matches(name, list(named), n=3, cutoff=0.5) or sorted(named)[:3]
            raise UsageError(
                "the model has no parameter or buffer of this name",
                where=name,
                hint=f"names that it has: {', '.join(near)}" if near else "the model has no parameters or buffers",
            )
        shape, dtype = describe(named[name].tensor)
        if shape != np.shape(value.array):
            raise UsageError(
                f"the model's tensor has shape {list(shape)}, the values have {list(np.shape(value.array))}",
                where=name,
                hint="transpose, split or reshape the values before loading them",
            )
        if is_complex(value.dtype) and not is_complex(dtype):
            raise UsageError(
                f"complex values cannot be loaded into a tensor of {dtype}",
                where=name,
                hint="load their real part, or make the model's tensor complex",
            )
        pairs.append((named[name], value))
    return pairs


def castable(dtype: str) -> str:
    """The name of an element type that models can be cast to, unchanged.

    Raises:
        UsageError: any other name.
    """
    if dtype not in FLOATING:
        raise UsageError(f"a model cannot be cast to {dtype!r}", hint="choose one of: " + ", ".join(FLOATING))
    return dtype
