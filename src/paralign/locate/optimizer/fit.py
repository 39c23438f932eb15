"""Values of terms found from observed steps."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from paralign.locate.optimizer.update_rules import Terms

#: steps of the search from each start, and of a quick one
_LONG, _QUICK = 14, 6


@dataclass(frozen=True)
class Scalar:
    """A value that can be fitted.

    To which rules it means something, how it is put in, from where to search, and on which scale.
    """

    applies: Callable[[Terms], bool]
    put: Callable[[Terms, float], Terms]
    starts: Callable[[Terms], tuple[float, ...]]
    scale: str


def _near(value: float, *others: float) -> tuple[float, ...]:
    """Where to start from: the value told, and usual ones."""
    return tuple(dict.fromkeys(v for v in (value, *others) if v > 0))


_ADAPTIVE = ("adam", "adabelief", "nadam", "radam", "rmsprop", "adadelta", "adamax", "lion")

SCALARS: dict[str, Scalar] = {
    "rates": Scalar(lambda _: True, lambda t, v: replace(t, rates=tuple(r * v for r in t.rates)), lambda _: (1.0, 0.1, 10.0), "log"),
    "decay": Scalar(lambda _: True, lambda t, v: replace(t, decay=v), lambda t: _near(t.decay, 1e-2, 1e-4), "log"),
    "first": Scalar(
        lambda t: t.family not in ("adagrad", "adadelta"), lambda t, v: replace(t, first=v), lambda t: _near(t.first, 0.9, 0.5), "odds"
    ),
    "second": Scalar(lambda t: t.family in _ADAPTIVE, lambda t, v: replace(t, second=v), lambda t: _near(t.second, 0.99, 0.9), "odds"),
    "eps": Scalar(
        lambda t: t.family not in ("sgd", "lion"), lambda t, v: replace(t, eps=v), lambda t: _near(t.eps, 1e-6, 1e-3, 1e-1), "log"
    ),
    "dampening": Scalar(lambda t: t.family == "sgd" and t.first > 0, lambda t, v: replace(t, dampening=v), lambda _: (0.5, 0.1), "odds"),
    "threshold": Scalar(
        lambda t: bool(t.clip), lambda t, v: replace(t, threshold=v), lambda t: _near(t.threshold, t.threshold / 10, t.threshold * 3), "log"
    ),
}


def _to(value: float, scale: str) -> float:
    return math.log(value) if scale == "log" else math.log(value / (1 - value))


def _from(point: float, scale: str) -> float:
    point = min(max(point, -60.0), 60.0 if scale == "log" else 30.0)
    return math.exp(point) if scale == "log" else 1 / (1 + math.exp(-point))


def fit(loss: Callable[[float], list[np.ndarray[Any, Any]]], starts: tuple[float, ...], scale: str, *, quick: bool = False) -> float | None:
    """The value with the least squares of ``loss``; None where nothing is finite.

    By Gauss and Newton from several starts.

    The value is rounded to few digits where that is as good: settings are written so.
    """
    best, least = None, math.inf
    for start in starts[: 1 if quick else None]:
        if not 0 < start < (math.inf if scale == "log" else 1):
            continue
        value, error = _descend(loss, _to(start, scale), scale, _QUICK if quick else _LONG)
        if error < least:
            best, least = value, error
        if least < 1e-13:  # noqa: PLR2004 - squared, the relative error that exact rules leave
            break
    return None if best is None else _rounded(loss, best, least)


def _size(parts: list[np.ndarray[Any, Any]]) -> float:
    total = sum(float(p @ p) for p in parts)
    return total if math.isfinite(total) else math.inf


def _descend(loss: Callable[[float], list[np.ndarray[Any, Any]]], point: float, scale: str, count: int) -> tuple[float, float]:
    parts = loss(_from(point, scale))
    error = _size(parts)
    for _ in range(count):
        if not math.isfinite(error):
            break
        moved = loss(_from(point + 1e-5, scale))
        slopes = [(m - p) / 1e-5 for m, p in zip(moved, parts, strict=True)]
        bend = _size(slopes)
        if not 0 < bend < math.inf:
            break
        step = -sum(float(s @ p) for s, p in zip(slopes, parts, strict=True)) / bend
        step = min(max(step, -2.5), 2.5)
        if abs(step) < 1e-12:  # noqa: PLR2004 - below what float64 tells apart
            break
        following = loss(_from(point + step, scale))
        if not _size(following) < error:
            following = loss(_from(point + step / 4, scale))
            step /= 4
        if not _size(following) < error:
            break
        point, parts, error = point + step, following, _size(following)
    return _from(point, scale), error


def _rounded(loss: Callable[[float], list[np.ndarray[Any, Any]]], value: float, least: float) -> float:
    for digits in (1, 2, 3, 4):
        near = float(f"{value:.{digits - 1}e}")
        if abs(near / value - 1) < 1e-3 and _size(loss(near)) <= max(4 * least, 1e-13):  # noqa: PLR2004 - not worse than what was found
            return near
    return value
