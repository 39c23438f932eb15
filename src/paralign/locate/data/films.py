"""Which axis of a video clip holds its frames, and which its channels."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.locate.data.distances import EQUAL, apart
from paralign.locate.data.moved_content import CHANNELS

if TYPE_CHECKING:
    from collections.abc import Sequence

Array = np.ndarray[Any, Any]

#: channels of grey and of coloured pictures
_PICTURES = (1, 3)

#: axes of a clip: frames, channels, height, width
AXES = 4


def is_doubtful(shape: Sequence[int]) -> bool:
    """Whether either of the first two axes may be the frames: both are as short."""
    return len(shape) == AXES and min(shape[:2]) > 1 and max(shape[:2]) <= CHANNELS < min(shape[2:])


def frames_axis(shape: Sequence[int]) -> int:
    """The axis of the frames: the second where the first is that of a picture's channels.

    Another first axis may as well be of dates or views, and the second of bands.

    >>> frames_axis((3, 16, 32, 32)), frames_axis((16, 3, 32, 32)), frames_axis((4, 12, 32, 32))
    (1, 0, 0)
    """
    return int(len(shape) == AXES and shape[0] in _PICTURES and min(shape[1:]) > CHANNELS)


def frames_first(clip: Array) -> Array:
    """A clip with its frames along the first axis."""
    return np.moveaxis(clip, frames_axis(clip.shape), 0)


def channel_axes(shape: Sequence[int]) -> list[int]:
    """The axes of a clip that may be its channels.

    That of the frames is left out, unless which it is is in doubt.

    >>> channel_axes((3, 16, 32, 32)), channel_axes((16, 32, 32, 3)), channel_axes((4, 3, 32, 32))
    ([0], [3], [0, 1])
    """
    frames = None if is_doubtful(shape) else frames_axis(shape)
    return [axis for axis in (0, 1, 3) if axis != frames and 1 < shape[axis] <= CHANNELS]


def exchanged_channels(pairs: Sequence[tuple[Array, Array]]) -> tuple[int, tuple[int, ...]] | None:
    """The axis of the channels, and the order of the reference's that makes all pairs equal.

    None where no other order does.
    """
    shape = pairs[0][0].shape
    if any(len(array.shape) != AXES for pair in pairs for array in pair) or any(a.shape != b.shape for a, b in pairs):
        return None
    for axis in channel_axes(shape):
        if any(a.shape[axis] != shape[axis] for a, _ in pairs):
            continue
        for order in itertools.permutations(range(shape[axis])):
            if list(order) != sorted(order) and all(apart(a.take(order, axis), b) <= EQUAL for a, b in pairs):
                return axis, order
    return None
