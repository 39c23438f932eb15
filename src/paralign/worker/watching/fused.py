"""Operations that do several things at once, as single ones.

What lies between is what other programs compute step by step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional

if TYPE_CHECKING:
    from paralign.adapters.base import Operation


class Part(NamedTuple):
    """One step inside of an operation.

    Its common kind, its result, the tensors that it takes, its numbers.
    """

    kind: str
    value: Any
    inputs: List[Any]
    arguments: Dict[str, Any]


class Parts(NamedTuple):
    """The steps inside of an operation, and what makes its own result.

    Of that last one: what it takes, and its kind.
    """

    steps: List[Part]
    last: List[Any]
    kind: str


def taken_apart(operation: "Operation") -> Optional[Parts]:
    """The steps inside of an operation of PyTorch's that has run.

    None for one that does a single thing.

    ``addcmul`` and ``addcdiv`` (``x + value * a * b``), ``add`` and ``sub`` with a factor, and ``lerp`` with a number as weight. A
    negative factor is a positive one that is subtracted.
    """
    name = operation.op.split(".")[1].rstrip("_") if operation.op.startswith("aten.") else ""
    tensors = operation.inputs
    if name in ("addcmul", "addcdiv") and len(tensors) == 3:  # noqa: PLR2004 - x, a, b
        whole, one, other = tensors
        product = one * other if name == "addcmul" else one / other
        first = Part("multiply" if name == "addcmul" else "divide", product, [one, other], {})
        return _added(whole, product, float(operation.attrs.get("value", 1.0)), [first])
    if name in ("add", "sub") and len(tensors) == 2 and operation.attrs.get("alpha", 1) != 1:  # noqa: PLR2004 - two terms
        factor = float(operation.attrs["alpha"])
        return _added(tensors[0], tensors[1], factor if name == "add" else -factor, [])
    if name == "lerp" and len(tensors) == 2 and "weight" in operation.attrs:  # noqa: PLR2004 - from, to
        weight = float(operation.attrs["weight"])
        end = tensors[1] * weight
        begin = operation.outputs[0] - end
        steps = [
            Part("multiply", begin, [tensors[0]], {"other": 1 - weight}),
            Part("multiply", end, [tensors[1]], {"other": weight}),
        ]
        return Parts(steps, [begin, end], "add")
    return None


def _added(whole: Any, term: Any, factor: float, steps: List[Part]) -> Parts:
    if abs(factor) != 1:
        scaled = term * abs(factor)
        steps = [*steps, Part("multiply", scaled, [term], {"other": abs(factor)})]
        term = scaled
    return Parts(steps, [whole, term], "subtract" if factor < 0 else "add")
