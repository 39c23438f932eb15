"""The steps inside fused operations: attention, normalisations, softmax, activations.

From what the reference's operation takes, its steps are computed as people write them, so that a hand-written one can be followed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.worker.values.masks import MASKED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

#: factor inside the square root of GELU's approximation, and that of its cube
_ROOT, _CUBE = math.sqrt(2 / math.pi), 0.044715


def steps(kind: str, inputs: Sequence[np.ndarray], arguments: Mapping[str, Any]) -> Iterator[np.ndarray]:
    """The values that an operation of a kind passes through; none for unknown kinds.

    Args:
        kind: the common name of the operation, as in :mod:`paralign.adapters._kinds`.
        inputs: its tensors in the order of its signature, floating ones in float64.
        arguments: those of its arguments that are no tensors.
    """
    found = KNOWN.get(kind)
    if found is None or not inputs:
        return
    with np.errstate(all="ignore"):
        yield from found(inputs, arguments)


def _attention(inputs: Sequence[np.ndarray], arguments: Mapping[str, Any]) -> Iterator[np.ndarray]:
    """``softmax(q k^T * scale + mask) v``, of shape (batch, heads, length, width)."""
    if len(inputs) < 3 or any(x.ndim != 4 for x in inputs[:3]):  # noqa: PLR2004 - queries, keys, values; batch, heads, length, width
        return
    q, k = inputs[0], inputs[1]
    k = np.repeat(k, q.shape[1] // k.shape[1], 1) if q.shape[1] != k.shape[1] else k
    scale = arguments.get("scale")
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    products = q @ k.swapaxes(-1, -2)
    scores = products * scale
    yield from (products, q * scale, k * scale, scores)
    left_out = _left_out(inputs, arguments, scores.shape)
    for mask in inputs[3:]:
        scores = scores + mask if mask.dtype.kind == "f" and mask.ndim > 1 else scores
    yield scores
    if left_out is not None:
        scores = np.where(left_out, -np.inf, scores)
        yield np.where(left_out, 0.0, scores)
    yield from _softmax([scores], {"dim": -1})


def _left_out(inputs: Sequence[np.ndarray], arguments: Mapping[str, Any], shape: tuple[int, ...]) -> np.ndarray | None:
    """Which scores are left out, as booleans that broadcast to them; None where none is."""
    found = None
    if arguments.get("is_causal"):
        found = ~np.tril(np.ones(shape[-2:], bool))
    for mask in inputs[3:]:
        if mask.ndim > 1:
            own = ~mask if mask.dtype.kind == "b" else mask < MASKED
            found = own if found is None else found | own
    if found is not None and found.any():
        return found
    return None


def masks(kind: str, inputs: Sequence[np.ndarray], arguments: Mapping[str, Any]) -> Iterator[np.ndarray]:
    """What people make of an operation's mask: left out, kept or added, but for a factor."""
    if kind != "attention" or len(inputs) < 3 or any(x.ndim != 4 for x in inputs[:3]):  # noqa: PLR2004 - as above
        return
    found = _left_out(inputs, arguments, (*inputs[0].shape[:-1], inputs[1].shape[-2]))
    if found is not None:
        yield from (found.astype(float), (~found).astype(float), -found.astype(float))


def unscaled(kind: str, inputs: Sequence[np.ndarray], arguments: Mapping[str, Any]) -> Iterator[np.ndarray]:
    """Steps that are right only before a scale: the products of queries and keys."""
    if kind == "attention":
        first = next(iter(_attention(inputs, arguments)), None)
        if first is not None and arguments.get("scale") != 1:
            yield first


def _softmax(inputs: Sequence[np.ndarray], arguments: Mapping[str, Any]) -> Iterator[np.ndarray]:
    axis = arguments.get("dim", arguments.get("axis", -1))
    if not isinstance(axis, int):
        return
    moved = inputs[0] - inputs[0].max(axis, keepdims=True)
    powers = np.exp(moved)
    total = powers.sum(axis, keepdims=True)
    yield from (moved, powers, total, np.exp(inputs[0]), powers / total)


def _log_softmax(inputs: Sequence[np.ndarray], arguments: Mapping[str, Any]) -> Iterator[np.ndarray]:
    chances = None
    for chances in _softmax(inputs, arguments):
        yield chances
    if chances is not None:
        yield np.log(chances)


def _layer_norm(inputs: Sequence[np.ndarray], arguments: Mapping[str, Any]) -> Iterator[np.ndarray]:
    """Over the last axis; by the root of the variance plus epsilon."""
    x = inputs[0]
    shape = arguments.get("normalized_shape")
    axes = tuple(range(x.ndim - len(shape), x.ndim)) if isinstance(shape, list) else (-1,)
    yield from _normalised(x, x.mean(axes, keepdims=True), axes, inputs[1:], arguments)


def _rms_norm(inputs: Sequence[np.ndarray], arguments: Mapping[str, Any]) -> Iterator[np.ndarray]:
    yield from _normalised(inputs[0], None, (-1,), inputs[1:], arguments)


def _normalised(
    x: np.ndarray, mean: np.ndarray | None, axes: tuple[int, ...], affine: Sequence[np.ndarray], arguments: Mapping[str, Any]
) -> Iterator[np.ndarray]:
    centred = x if mean is None else x - mean
    if mean is not None:
        yield from (mean, centred)
    variance = np.square(centred).mean(axes, keepdims=True)
    epsilon = next((float(v) for k, v in arguments.items() if k in ("eps", "epsilon") and isinstance(v, (int, float))), 1e-5)
    root = np.sqrt(variance + epsilon)
    result = centred / root
    yield from (np.square(centred), variance, variance + epsilon, root, 1 / root, result)
    if affine and affine[0].shape == x.shape[x.ndim - affine[0].ndim :]:
        yield result * affine[0]


def _gelu(inputs: Sequence[np.ndarray], arguments: Mapping[str, Any]) -> Iterator[np.ndarray]:
    x = inputs[0]
    if arguments.get("approximate") in ("tanh", True):
        inner = x + _CUBE * x**3
        share = np.tanh(_ROOT * inner)
        yield from (x**3, _CUBE * x**3, inner, _ROOT * inner, share)
    else:
        share = np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2))
        yield from (x / math.sqrt(2), share)
    yield from (1 + share, 0.5 * (1 + share), 0.5 * x, x * (1 + share))


def _silu(inputs: Sequence[np.ndarray], arguments: Mapping[str, Any]) -> Iterator[np.ndarray]:  # noqa: ARG001 - as the others
    yield 1 / (1 + np.exp(-inputs[0]))


#: kind -> its steps
KNOWN: dict[str, Callable[[Sequence[np.ndarray], Mapping[str, Any]], Iterator[np.ndarray]]] = {
    "attention": _attention,
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "gelu": _gelu,
    "silu": _silu,
}
