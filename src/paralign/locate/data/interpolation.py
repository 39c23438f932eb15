"""Which interpolation made one image of another: the usual ones, recomputed.

A resize is a weighted sum along each axis in turn. What implementations differ in is the kernel, whether it widens when
an image shrinks (antialiasing, as PIL does and OpenCV and tensors do not), and where the pixels' centres lie.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Array = np.ndarray[Any, Any]


def _cubic(a: float) -> Callable[[Array], Array]:
    """Keys' kernel: ``a`` is -0.5 in PIL, -0.75 in OpenCV and PyTorch."""

    def kernel(x: Array) -> Array:
        x = np.abs(x)
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        return np.where(x < 1, near, np.where(x < 2, ((x - 5) * x + 8) * x * a - 4 * a, 0.0))  # noqa: PLR2004 - the kernel's reach

    return kernel


def _linear(x: Array) -> Array:
    near: Array = np.maximum(0.0, 1 - np.abs(x))
    return near


def _box(x: Array) -> Array:
    return ((x > -0.5) & (x <= 0.5)).astype(np.float64)  # noqa: PLR2004 - half a pixel


def _lanczos(x: Array) -> Array:
    return np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0.0)  # noqa: PLR2004 - three lobes


#: name -> kernel and its reach
KERNELS: dict[str, tuple[Callable[[Array], Array], float]] = {
    "bilinear": (_linear, 1.0),
    "bicubic (a = -0.5)": (_cubic(-0.5), 2.0),
    "bicubic (a = -0.75)": (_cubic(-0.75), 2.0),
    "box": (_box, 0.5),
    "Lanczos": (_lanczos, 3.0),
}


def _weights(size: int, new: int, kernel: Callable[[Array], Array], reach: float, *, antialias: bool, corners: bool) -> Array:
    """The matrix (new, size) of one axis."""
    scale = size / new
    centre = np.arange(new) * ((size - 1) / max(1, new - 1)) if corners else (np.arange(new) + 0.5) * scale - 0.5
    wide = max(1.0, scale) if antialias else 1.0
    half = math.ceil(reach * wide) + 1
    found = np.zeros((new, size))
    for row, middle in enumerate(centre):
        places = np.arange(math.floor(middle) - half, math.floor(middle) + half + 1)
        values = kernel((places - middle) / wide)
        if antialias:  # beyond the border there is nothing; without antialiasing the border is repeated
            values, places = values[(places >= 0) & (places < size)], places[(places >= 0) & (places < size)]
        np.add.at(found[row], np.clip(places, 0, size - 1), values)
    total = found.sum(axis=1, keepdims=True)
    return found / np.where(total == 0, 1.0, total)


def _nearest(size: int, new: int, *, half: bool) -> Array:
    places = np.floor((np.arange(new) + (0.5 if half else 0.0)) * size / new).astype(int)
    found: Array = np.eye(size)[np.clip(places, 0, size - 1)]
    return found


def ways(image: Array, axes: tuple[int, int], shape: tuple[int, int]) -> Iterator[tuple[str, Array]]:
    """Name and result of every way to resize an image.

    Args:
        image: any number of axes, in float64.
        axes: which are height and width.
        shape: the new height and width.
    """
    sizes = tuple(zip((image.shape[a] for a in axes), shape, strict=True))
    for name, half in (("nearest (pixel centres)", True), ("nearest (pixel corners)", False)):
        yield name, _apply(image, axes, [_nearest(size, new, half=half) for size, new in sizes])
    for name, (kernel, reach) in KERNELS.items():
        for antialias, corners in ((True, False), (False, False), (False, True)):
            if (name in ("box", "Lanczos") and not antialias) or (corners and name != "bilinear"):
                continue
            matrices = [_weights(size, new, kernel, reach, antialias=antialias, corners=corners) for size, new in sizes]
            said = "" if name in ("box", "Lanczos") else (", with antialiasing" if antialias else ", without antialiasing")
            yield f"{name}{said}{', corners aligned' if corners else ''}", _apply(image, axes, matrices)


def _apply(image: Array, axes: tuple[int, int], matrices: list[Array]) -> Array:
    for axis, matrix in zip(axes, matrices, strict=True):
        image = np.moveaxis(np.tensordot(matrix, image, axes=(1, axis)), 0, axis)
    return image


def recognised(image: Array, result: Array, axes: tuple[int, int], step: float) -> str | None:
    """The way that gives ``result`` to within about one ``step``; None where none does.

    A step is a grey level, or a rounding.

    Args:
        image: what was resized.
        result: the resized image, its axes in the same order.
        axes: which are height and width.
        step: how far values may be off, as a root mean square.
    """
    best, least = None, step
    shape = (result.shape[axes[0]], result.shape[axes[1]])
    low, high = float(image.min()), float(image.max())
    for name, made in ways(image, axes, shape):
        error = float(np.sqrt(np.mean((np.clip(made, low, high) - np.clip(result, low, high)) ** 2)))
        if error < least:
            best, least = name, error
    return best
