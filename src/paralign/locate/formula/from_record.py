"""An operation of a run as a step of a formula, as far as its arguments tell."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from paralign.locate.formula.numpy_operations import ALONG, BINARY, REDUCED, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from paralign.locate.formula.numpy_operations import Operand
    from paralign.locate.runs.dataflow import Operation

#: arguments that hold the one number of an operation, as the frameworks name or count them
_NUMBER = ("1", "other", "exponent", "scale", "factor", "0", "self")

#: other names of operations
_NAMES = {
    "less_than": "lt",
    "less_equal": "le",
    "greater_than": "gt",
    "greater_equal": "ge",
    "equal": "eq",
    "not_equal": "ne",
    "swish": "silu",
    "logsigmoid": "log_sigmoid",
}

#: operators of Python whose operands come the other way round
_TURNED = frozenset({"radd", "rsub", "rmul", "rdiv", "rtruediv", "rpow", "rfloordiv"})

#: operands of an operator
_TWO = 2


def step_of(operation: Operation) -> Step | None:
    """An operation as a step; None for what is not known, or makes several results."""
    if operation.op == "cross_entropy_with_softmax":
        return _cross_entropy(operation)
    if len(operation.outputs) != 1 or operation.written or not operation.inputs:
        return None
    name = _NAMES.get(operation.kind, operation.kind)
    reader = _SPECIAL.get(_bare(operation)) or _READERS.get(name)
    if reader is not None:
        return reader(operation)
    if name in REDUCED and (name not in BINARY or len(operation.inputs) == 1):
        return _step(operation, name, operation.inputs[:1], _axes(operation))
    if name in ALONG:
        return _step(operation, name, operation.inputs[:1], _axes(operation) or (len(operation.inputs[0].shape) - 1,))
    return _operator(operation, name) if name in BINARY else _step(operation, name)


def _step(
    operation: Operation, name: str, operands: Sequence[Operand] | None = None, along: tuple[int, ...] | None = None, **settings: Any
) -> Step:
    made = operation.outputs[0]
    return Step(operation, name, tuple(operation.inputs if operands is None else operands), made.shape, made.record.dtype, along, settings)


def _bare(operation: Operation) -> str:
    return (operation.op.split(".")[1] if operation.op.count(".") > 1 else operation.op).strip("_")


def _operator(operation: Operation, name: str) -> Step | None:
    number = _number(operation)
    if operation.arguments.get("alpha", 1) != 1 or (len(operation.inputs) != _TWO and number is None):
        return None
    operands: list[Operand] = list(operation.inputs) if len(operation.inputs) == _TWO else [*operation.inputs, float(number or 0)]
    return _step(operation, name, operands[::-1] if _bare(operation) in _TURNED else operands)


def _cross_entropy(operation: Operation) -> Step | None:
    """Paddle's, whose second result is the loss."""
    arguments = operation.arguments
    last = arguments.get("axis") in (-1, len(operation.inputs[0].shape) - 1)
    if len(operation.outputs) != _TWO or len(operation.inputs) != _TWO or not last or not arguments.get("use_softmax"):
        return None
    told = {"soft": bool(arguments.get("soft_label")), "ignored": arguments.get("ignore_index")}
    made = operation.outputs[1]
    return Step(operation, "cross_entropy", tuple(operation.inputs), made.shape, made.record.dtype, None, told, 1)


def _scale(operation: Operation) -> Step | None:
    factor, shift = (float(operation.arguments.get(key, default)) for key, default in (("scale", 1), ("bias", 0)))
    if shift and factor != 1:
        return None
    return _step(operation, "add" if shift else "multiply", [*operation.inputs, shift or factor])


def _transpose(operation: Operation) -> Step | None:
    perm = next((operation.arguments[key] for key in ("perm", "dims") if isinstance(operation.arguments.get(key), list)), None)
    return _step(operation, "transpose", perm=tuple(perm)) if perm is not None and len(perm) == len(operation.inputs[0].shape) else None


def _clip(operation: Operation) -> Step | None:
    arguments = operation.arguments
    limits = {key: float(arguments[key]) for key in ("min", "max") if isinstance(arguments.get(key), (int, float))}
    return _step(operation, "clip", operation.inputs[:1], None, **limits) if len(limits) + 1 >= len(operation.inputs) else None


def _slice(operation: Operation) -> Step | None:
    index = _index(operation, len(operation.inputs[0].shape))
    return None if index is None else _step(operation, "slice", index=index)


def _along(name: str, default: int | None) -> Callable[[Operation], Step | None]:
    def read(operation: Operation) -> Step | None:
        given = [operation.arguments.get(key) for key in ("axis", "dim", "1", "2")]
        axis = next((each for each in given if type(each) is int), default)
        return None if axis is None else _step(operation, name, axis=axis)

    return read


def _tile(operation: Operation) -> Step | None:
    times = next((operation.arguments[key] for key in ("1", "repeats", "dims") if isinstance(operation.arguments.get(key), list)), None)
    return _step(operation, "tile", times=tuple(times)) if times is not None else None


def _matmul(operation: Operation) -> Step | None:
    return _step(operation, "matmul", **{key: operation.arguments.get(key) for key in ("transpose_x", "transpose_y")})


#: operations by their own names, and by their kinds
_SPECIAL: dict[str, Callable[[Operation], Step | None]] = {
    "scale": _scale,
    "square": lambda operation: _step(operation, "power", [*operation.inputs, 2.0]),
}
_READERS: dict[str, Callable[[Operation], Step | None]] = {
    "copy": lambda operation: _step(operation, "same", operation.inputs[:1]),
    "label_smooth": lambda operation: _step(operation, "label_smooth", [*operation.inputs[:1], float(operation.arguments.get("2", 0.1))]),
    "transpose": _transpose,
    "clip": _clip,
    "slice": _slice,
    "cumsum": _along("cumsum", None),
    "take_along_axis": _along("take_along_axis", None),
    "gather": _along("take_along_axis", None),
    "concatenate": _along("concatenate", 0),
    "stack": _along("stack", 0),
    "tile": _tile,
    "matmul": _matmul,
}


def _number(operation: Operation) -> float | None:
    found = [operation.arguments[key] for key in _NUMBER if type(operation.arguments.get(key)) in (int, float)]
    return float(found[0]) if found else None


def _axes(operation: Operation) -> tuple[int, ...] | None:
    """The axes that an operation goes along, counted from the first; None where it names none."""
    count = len(operation.inputs[0].shape)
    for key in ("axis", "dim", "1"):
        given = operation.arguments.get(key)
        listed = given if isinstance(given, list) else [given]
        axes = [axis for axis in listed if isinstance(axis, int) and not isinstance(axis, bool)]
        if axes and len(axes) == len(listed):
            return tuple(axis % max(count, 1) for axis in axes)
    return None


def _index(operation: Operation, count: int) -> tuple[Any, ...] | None:
    """What an operation indexes with; None where that is not known."""
    arguments = operation.arguments
    if "dim" in arguments:
        dim = int(arguments["dim"]) % max(count, 1)
        one: Any = arguments.get("index")
        if one is None:
            one = slice(arguments.get("start"), arguments.get("end"), arguments.get("step"))
        return (*[slice(None)] * dim, one)
    given = arguments.get("1")
    parts = given if isinstance(given, list) else [given]
    found = [_part(part) for part in parts]
    return None if not found or any(part is NotImplemented for part in found) else tuple(found)


def _part(part: Any) -> Any:
    """One part of an index, written as text where it is no number."""
    if type(part) is int:
        return part
    ends = re.fullmatch(r"slice\((None|-?\d+), (None|-?\d+), (None|-?\d+)\)", part) if isinstance(part, str) else None
    if ends is not None:
        return slice(*(None if end == "None" else int(end) for end in ends.groups()))
    return Ellipsis if part == "Ellipsis" else NotImplemented
