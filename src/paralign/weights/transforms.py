"""What may happen to a tensor on its way to the other side: written as text, so that plans can be stored and read.

One form: ``transpose(<axes>)`` with the meaning that it has in numpy, as in ``transpose(1, 0)``. None leaves a tensor as it is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from paralign.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

_FORM = re.compile(r"transpose\(\s*(\d{1,2}(?:\s*,\s*\d{1,2})*)\s*\)")


def transpose(axes: Sequence[int]) -> str | None:
    """The text for a transposition; None where it moves nothing.

    >>> transpose([1, 0]), transpose([0, 1, 2])
    ('transpose(1, 0)', None)
    """
    if list(axes) == sorted(axes):
        return None
    return f"transpose({', '.join(str(axis) for axis in axes)})"


def parse(transform: str | None) -> tuple[int, ...] | None:
    """The axes that a text speaks of; None for None.

    Raises:
        UsageError: any other text.

    >>> parse("transpose(1, 0)")
    (1, 0)
    """
    if transform is None:
        return None
    found = _FORM.fullmatch(transform)
    axes = tuple(int(axis) for axis in found.group(1).split(",")) if found else ()
    if not axes or sorted(axes) != list(range(len(axes))):
        raise UsageError(f"{transform!r} is no transform of weights", hint="write it as transpose(1, 0), each axis once, or leave it out")
    return axes


def inverse(axes: Sequence[int]) -> tuple[int, ...]:
    """The axes that undo a transposition.

    >>> inverse((1, 2, 0))
    (2, 0, 1)
    """
    return tuple(int(axis) for axis in np.argsort(axes))


def permuted(shape: Sequence[int], axes: Sequence[int] | None) -> tuple[int, ...]:
    """The shape after a transposition; a shape of another rank is returned as it is.

    >>> permuted((3, 4), (1, 0))
    (4, 3)
    """
    if axes is None or len(axes) != len(shape):
        return tuple(shape)
    return tuple(shape[axis] for axis in axes)
