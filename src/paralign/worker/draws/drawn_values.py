"""What random operations draw.

Recorded on one side, put in place of the other side's own draws.

A draw is a *mask* (ones where an element is kept, as dropout draws it) or numbers of a distribution (``uniform``, ``normal``, others by
the name of the operation). A mask can take the place of a mask, of a whole dropout (whose result is then computed from its input),
and of uniform numbers that are compared with a probability: those of kept elements lie above the share that is dropped, the others below
it. Uniform numbers can decide a mask the same way. Whether a program keeps what is above a number or what is below it is its own affair:
``1 - u`` is as uniform as ``u``, so numbers can be used *mirrored*.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List, NamedTuple, Optional

import numpy as np

if TYPE_CHECKING:
    from paralign.adapters.base import Operation

MASK, UNIFORM, NORMAL, EXPONENTIAL = "mask", "uniform", "normal", "exponential"

_FAMILIES = {
    "rand": UNIFORM,
    "rand_like": UNIFORM,
    "uniform": UNIFORM,
    "randn": NORMAL,
    "randn_like": NORMAL,
    "normal": NORMAL,
    "gaussian": NORMAL,
    "bernoulli": MASK,
}


#: the probability that PyTorch's bernoulli_ has where it is called without one
_HALF = 0.5


#: randomised leaky ReLU, which draws the slope of each negative element, and keeps ones for the others
_SLOPES = ("rrelu", "rrelu_with_noise")


#: a softmax whose kernel draws and adds Gumbel noise by itself, which is minus the logarithm of exponential numbers
_GUMBEL = "gumbel_softmax"


class Draw(NamedTuple):
    """Numbers that were drawn, of one ``family``.

    ``p`` is the share that a mask drops, None where it is not told. The numbers are kept if they are at hand.
    """

    family: str
    p: Optional[float]
    value: Any


def drawn(operation: "Operation") -> Optional[Draw]:
    """What a random operation drew; None where nothing was drawn.

    That is so of an operation that is not random, or has no numbers (a dropout of probability zero).
    """
    if not operation.random or not operation.outputs:
        return None
    name = bare(operation.op)
    if name in ("dropout", "native_dropout"):
        p = operation.attrs.get("p")
        if not p:
            return None
        return Draw(MASK, float(p), operation.outputs[1] if name == "native_dropout" else None)
    if name in _SLOPES:
        return Draw("slopes", None, operation.outputs[1] if len(operation.outputs) > 1 else operation.inputs[1])
    if name == _GUMBEL:
        return Draw(EXPONENTIAL, None, None if operation.attrs.get("hard") else _gumbel_noise(operation))
    family = _FAMILIES.get(name, name)
    kept = operation.attrs.get("p") if family == MASK else None
    if kept is None and operation.op.endswith("bernoulli_.float"):
        kept = _HALF
    return Draw(family, None if kept is None else 1.0 - float(kept), operation.outputs[0])


def replayed(operation: "Operation", family: str, value: Any) -> Optional[List[Any]]:
    """The outputs that a random operation has with another side's draw, in its own shape.

    None where the draw cannot be used.

    ``value`` is a tensor of the element type of the operation's first output.
    """
    name, mine = bare(operation.op), drawn(operation)
    if mine is None or not fits(family, mine.family):
        return None
    if name in _SLOPES:
        if len(operation.outputs) == 1:
            operation.inputs[1].copy_(value)  # where PyTorch keeps the slopes for the backward pass
        return [operation.inputs[0] * value, *([value] if len(operation.outputs) > 1 else [])]
    if name == _GUMBEL:
        return [_gumbel_softmax(operation, value)]
    if name not in ("dropout", "native_dropout"):
        return [value, *operation.outputs[1:]]
    given, p = operation.inputs[0], float(operation.attrs["p"])
    scale = 1.0 if operation.attrs.get("mode") == "downgrade_in_infer" or p >= 1.0 else 1.0 / (1.0 - p)
    result = given * value * scale
    return [result] if len(operation.outputs) == 1 else [result, value.to(operation.outputs[1].dtype), *operation.outputs[2:]]


def _gumbel_noise(operation: "Operation") -> Any:
    """The exponential numbers that make a soft result of its logits.

    They are known up to a constant in each row, which no softmax sees.
    """
    made, logits = operation.outputs[0].detach(), operation.inputs[0].detach()
    return (logits - made.log() * float(operation.attrs.get("temperature", 1.0))).exp()


def _gumbel_softmax(operation: "Operation", value: Any) -> Any:
    """The softmax of logits beside given Gumbel noise, with the gradients of Paddle's kernel.

    That is a softmax gradient at the result: without the share of the temperature, zero for a hard one (measured with Paddle 3.3).
    A replay that were differentiated rightly would hide it.
    """
    axis, logits = int(operation.attrs.get("axis", -1)), operation.inputs[0]
    known = logits.detach()
    noisy = (known - value.log()) / float(operation.attrs.get("temperature", 1.0)) + (logits - known)
    raised = (noisy - noisy.detach().amax(axis, keepdim=True)).exp()
    soft = raised / raised.sum(axis, keepdim=True)
    if not operation.attrs.get("hard"):
        return soft
    fixed = soft.detach()
    return (fixed == fixed.amax(axis, keepdim=True)).to(soft.dtype) + 0.0 * soft


def fits(reference: str, candidate: str) -> bool:
    """Whether a draw of one family can take the place of another."""
    return reference == candidate or {reference, candidate} == {MASK, UNIFORM}


def turned(array: "np.ndarray[Any, Any]", family: str, wanted: str, p: Optional[float], *, mirrored: bool) -> "np.ndarray[Any, Any]":
    """A draw as another family needs it, of the same shape and type.

    Args:
        array: the draw; a mask holds ones and zeros.
        family: what it is.
        wanted: what is needed.
        p: the share that the mask drops; where it is not told, a kept element becomes one, another one zero.
        mirrored: whether uniform numbers count from above.
    """
    numbers = array
    if family == MASK and wanted == UNIFORM and p is not None:
        spread = ((np.arange(array.size) * _GOLDEN + 0.5) % 1.0).reshape(array.shape)
        numbers = np.where(array != 0, p + (1 - p) * spread, p * spread).astype(array.dtype)
    if mirrored and UNIFORM in (family, wanted):
        numbers = np.subtract(1, numbers, dtype=array.dtype)
    if family == UNIFORM and wanted == MASK:
        numbers = np.asarray(numbers >= (0.0 if p is None else p), array.dtype)
    return numbers


#: its multiples, without their whole parts, spread evenly between zero and one
_GOLDEN = 0.6180339887498949


def bare(op: str) -> str:
    """The name of an operation without what tells its namespace and variant."""
    parts = op.split(".")
    return (parts[1] if len(parts) > 1 else parts[0]).strip("_").replace("_inplace", "")
