"""What an operation computes, in numpy, so that steps can be done again changed.

A step is only done again where it makes of the recorded inputs what was recorded (:func:`is_done`), so that nothing hangs on whether a
framework means the same by an operation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Union

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from paralign.locate.runs.dataflow import Operation, Value

#: what a step takes: a value of the run, or a number
Operand = Union["Value", float]

#: a result that differs from the recorded one by less than this share is the same: kernels keep constants in float32
SAME = 1e-6

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "power": np.power,
    "floordiv": np.floor_divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lt": np.less,
    "le": np.less_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "complex": lambda real, imaginary: real + 1j * imaginary,
    "atan2": np.arctan2,
    "remainder": np.mod,
    "outer": np.outer,
}

UNARY: dict[str, Callable[[Any], Any]] = {
    "negative": np.negative,
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "tanh": np.tanh,
    "sin": np.sin,
    "cos": np.cos,
    "floor": np.floor,
    "round": np.round,
    "sign": np.sign,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "log_sigmoid": lambda x: -np.logaddexp(0, -x),
    "softplus": lambda x: np.logaddexp(0, x),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "relu": lambda x: np.maximum(x, 0),
    "logical_not": np.logical_not,
    "real": np.real,
    "imag": np.imag,
    "conj": np.conj,
    "angle": np.angle,
    "cosh": np.cosh,
    "sinh": np.sinh,
    "tan": np.tan,
    "atan": np.arctan,
    "ceil": np.ceil,
    "log2": np.log2,
}

REDUCED: dict[str, Callable[..., Any]] = {
    "mean": np.mean,
    "sum": np.sum,
    "maximum": np.max,
    "minimum": np.min,
    "prod": np.prod,
    "logsumexp": lambda x, axis, keepdims: np.logaddexp.reduce(x, axis=axis, keepdims=keepdims),
}


def _softmax(x: Any, axis: int) -> Any:
    raised = np.exp(x - x.max(axis=axis, keepdims=True))
    return raised / raised.sum(axis=axis, keepdims=True)


ALONG: dict[str, Callable[..., Any]] = {
    "softmax": _softmax,
    "log_softmax": lambda x, axis: x - np.logaddexp.reduce(x, axis=axis, keepdims=True),
}


@dataclass(frozen=True)
class Step:
    """One step: its ``name`` (of the tables above, or a kind), operands and settings.

    ``shape`` and ``dtype`` are those of the result, and ``place`` is its place among the operation's. ``along`` are the axes of a
    reduction or a softmax.
    """

    operation: Operation
    name: str
    operands: tuple[Operand, ...]
    shape: tuple[int, ...]
    dtype: str
    along: tuple[int, ...] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    place: int = 0

    @property
    def made(self) -> Value:
        """What the operation has made here."""
        return self.operation.outputs[self.place]

    def values(self) -> list[Value]:
        """The values among what it takes."""
        return [each for each in self.operands if not isinstance(each, float)]

    def done(self, given: Sequence[Any]) -> Any:
        """The result for arrays and numbers in the place of the operands.

        Raises:
            ValueError: they do not fit, or it is not known what the step does.
        """
        with np.errstate(all="ignore"):
            if self.name in BINARY and len(given) == 2:  # noqa: PLR2004 - two operands
                return BINARY[self.name](*given)
            if self.name in UNARY and len(given) == 1:
                return UNARY[self.name](given[0])
            if self.name in ALONG and self.along:
                return ALONG[self.name](given[0], self.along[0])
            if self.name in REDUCED:
                return REDUCED[self.name](given[0], axis=self.along, keepdims=len(self.shape) == np.ndim(given[0]))
            if self.name in _ARRANGED:
                return _ARRANGED[self.name](self, *(np.asarray(each) for each in given))
        raise ValueError(self.name)


def _view(step: Step, x: Any) -> Any:
    return x.reshape(step.shape) if x.size == math.prod(step.shape) else np.broadcast_to(x, step.shape)


def _matmul(step: Step, one: Any, other: Any, bias: Any = 0) -> Any:
    first, second = (np.swapaxes(x, -1, -2) if step.settings.get(key) else x for x, key in ((one, "transpose_x"), (other, "transpose_y")))
    return first @ second + bias


def _cross_entropy(step: Step, logits: Any, labels: Any) -> Any:
    """Of logits along the last axis; labels are indices, or shares of all classes."""
    chances = ALONG["log_softmax"](np.asarray(logits), -1)
    if step.settings["soft"]:
        return -(labels * chances).sum(-1, keepdims=True)
    wanted = np.asarray(labels).reshape((*chances.shape[:-1], 1)).astype(np.int64)
    kept = wanted != step.settings["ignored"]
    return np.where(kept, -np.take_along_axis(chances, np.where(kept, wanted, 0), -1), 0.0)


def _norm(step: Step, x: Any) -> Any:
    kept = len(step.shape) == np.ndim(x)
    raised = (np.abs(x) ** step.settings["order"]).sum(axis=step.along, keepdims=kept)
    return raised ** (1 / step.settings["order"])


def _counted(step: Step, first: Any, last: Any, by: Any) -> Any:
    """Numbers from a first one on, as many as were recorded."""
    begin, end, width = (float(each.reshape(-1)[0]) for each in (first, last, by))
    if not width or math.ceil((end - begin) / width) != step.shape[0]:
        raise ValueError(step.name)
    return begin + width * np.arange(step.shape[0])


def _of_halves(step: Step, x: Any) -> Any:
    """What a transform to real numbers makes of half a spectrum."""
    length, axes, norm = (step.settings[key] for key in ("length", "axes", "norm"))
    lengths = [step.shape[axis] for axis in axes[:-1]] + [length]
    return np.fft.irfftn(x, lengths, axes, norm)


def _transformed(step: Step, x: Any) -> Any:
    """What a transform of complex numbers makes, either way."""
    way = np.fft.fftn if step.settings["forward"] else np.fft.ifftn
    return way(x, axes=step.settings["axes"], norm=step.settings["norm"])


def _spectrum(step: Step, x: Any) -> Any:
    """What a transform of real numbers makes: half a spectrum, or the whole."""
    way = np.fft.rfftn if step.settings["half"] else np.fft.fftn
    return way(x, axes=step.settings["axes"], norm=step.settings["norm"])


#: what moves elements or chooses among them -> what it makes for a step of arrays
_ARRANGED: dict[str, Callable[..., Any]] = {
    "same": lambda _, x: x,
    "view": _view,
    "cast": lambda step, x: x.astype(step.dtype),
    "cumsum": lambda step, x: np.cumsum(x, step.settings["axis"]),
    "transpose": lambda step, x: x.transpose(step.settings["perm"]),
    "where": lambda _, mask, one, other: np.where(mask, one, other),
    "clip": lambda step, x: np.clip(x, step.settings.get("min", -math.inf), step.settings.get("max", math.inf)),
    "slice": lambda step, x: x[step.settings["index"]],
    "take_along_axis": lambda step, x, index: np.take_along_axis(x, index, step.settings["axis"]),
    "matmul": _matmul,
    "concatenate": lambda step, *parts: np.concatenate(parts, step.settings["axis"]),
    "stack": lambda step, *parts: np.stack(parts, step.settings["axis"]),
    "tile": lambda step, x: np.tile(x, step.settings["times"]),
    "cross_entropy": _cross_entropy,
    "one_hot": lambda step, x: np.eye(step.shape[-1])[x.astype(np.int64)],
    "weighted mean": lambda step, x, weight: x.sum(step.along) / np.broadcast_to(weight, x.shape).sum(step.along),
    "arange": _counted,
    "einsum": lambda step, *parts: np.einsum(step.settings["equation"], *parts),
    "norm": _norm,
    "pad": lambda step, x: np.pad(x, step.settings["widths"], constant_values=step.settings["value"]),
    "as_complex": lambda _, x: x[..., 0] + 1j * x[..., 1],
    "as_real": lambda _, x: np.stack([x.real, x.imag], -1),
    "fft_r2c": _spectrum,
    "fft_c2r": _of_halves,
    "fft_c2c": _transformed,
    "triu": lambda step, x: np.triu(x, step.settings["diagonal"]),
    "tril": lambda step, x: np.tril(x, step.settings["diagonal"]),
    "flip": lambda step, x: np.flip(x, step.along),
    "cumprod": lambda step, x: np.cumprod(x, step.settings["axis"]),
    "index_select": lambda step, x, index: np.take(x, index.reshape(-1).astype(np.int64), step.settings["axis"]),
    "label_smooth": lambda _, x, share: (1 - share) * x + share / x.shape[-1],
}


def same(one: Any, other: Any, tolerance: float = SAME) -> bool:
    """Whether two arrays of one size differ by less than a share of their root mean square."""
    return apart(one, other) <= tolerance


def apart(one: Any, other: Any) -> float:
    """How far two arrays are apart, relative to the greater root mean square."""
    first, second = _wide(one), _wide(other)
    if first.size != second.size:
        return math.inf
    with np.errstate(over="ignore", invalid="ignore"):  # what a trial makes may be huge: then it is far
        size = max(_rms(first), _rms(second))
        far = _rms(first.reshape(-1) - second.reshape(-1))
    if size and math.isfinite(far):
        return far / size
    if far:
        return math.inf
    return 0.0


def _wide(array: Any) -> Any:
    """An array in float64, or complex128 where it is complex."""
    found = np.asarray(array)
    return found.astype(np.complex128 if found.dtype.kind == "c" else np.float64)


def _rms(array: Any) -> float:
    return float(np.sqrt(np.mean(np.square(np.abs(array))))) if array.size else 0.0


def is_done(step: Step, arrays: Mapping[Value, Any]) -> bool:
    """Whether numpy makes the same as was recorded of what was recorded."""
    if any(v not in arrays for v in (*step.values(), step.made)):
        return False
    try:
        made = step.done([arrays[each] if not isinstance(each, float) else each for each in step.operands])
    except (ValueError, TypeError, IndexError, KeyError):
        return False
    return same(made, arrays[step.made])
