"""An operation of a run as a step of a formula, as far as its arguments tell."""

from __future__ import annotations

import math
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
    "view_as_complex": "as_complex",
    "view_as_real": "as_real",
    "_fft_r2c": "fft_r2c",
    "_fft_c2r": "fft_c2r",
    "_fft_c2c": "fft_c2c",
    "_conj": "conj",
    "_conj_physical": "conj",
    "arctan2": "atan2",
    "arctan": "atan",
}

#: operators of Python whose operands come the other way round
_TURNED = frozenset({"radd", "rsub", "rmul", "rdiv", "rtruediv", "rpow", "rfloordiv"})

#: operands of an operator
_TWO = 2


def step_of(operation: Operation) -> Step | None:
    """An operation as a step; None for what is not known, or makes several results."""
    several = _SEVERAL.get(operation.op)
    if several is not None:
        return several(operation)
    if len(operation.outputs) != 1 or operation.written or not operation.inputs:
        return None
    name = _NAMES.get(operation.kind, operation.kind)
    reader = _SPECIAL.get(_bare(operation)) or _READERS.get(name)
    if reader is None:
        return _plain(operation, name)
    return reader(operation)


def _plain(operation: Operation, name: str) -> Step | None:
    """A step along axes, or an operator, or a function of one value."""
    first = operation.inputs[:1]
    if name in REDUCED and (name not in BINARY or len(operation.inputs) == 1):
        return _step(operation, name, first, _axes(operation))
    if name in ALONG:
        return _step(operation, name, first, _axes(operation) or (len(first[0].shape) - 1,))
    if name in BINARY:
        return _operator(operation, name)
    return _step(operation, name)


def _step(
    operation: Operation, name: str, operands: Sequence[Operand] | None = None, along: tuple[int, ...] | None = None, **settings: Any
) -> Step:
    made = operation.outputs[0]
    return Step(operation, name, tuple(operation.inputs if operands is None else operands), made.shape, made.record.dtype, along, settings)


def _bare(operation: Operation) -> str:
    """An operation's name without its framework's namespace and overload, or underscores."""
    name = operation.op.split(".")[1] if operation.op.count(".") > 1 else operation.op
    return name.strip("_")


def _listed(operation: Operation, *names: str) -> list[Any] | None:
    """The first of some arguments that is a list."""
    for name in names:
        given = operation.arguments.get(name)
        if isinstance(given, list):
            return given
    return None


def _operator(operation: Operation, name: str) -> Step | None:
    """An operator of two values, or of a value and a number."""
    if operation.arguments.get("alpha", 1) != 1:
        return None
    operands: list[Operand] = list(operation.inputs)
    if len(operands) != _TWO:
        number = _number(operation)
        if number is None:
            return None
        operands.append(number)
    return _step(operation, name, operands[::-1] if _bare(operation) in _TURNED else operands)


def _cross_entropy(operation: Operation) -> Step | None:
    """Paddle's, whose second result is the loss."""
    arguments = operation.arguments
    if len(operation.outputs) != _TWO or len(operation.inputs) != _TWO or not arguments.get("use_softmax"):
        return None
    if arguments.get("axis") not in (-1, len(operation.inputs[0].shape) - 1):
        return None
    told = {"soft": bool(arguments.get("soft_label")), "ignored": arguments.get("ignore_index")}
    made = operation.outputs[1]
    return Step(operation, "cross_entropy", tuple(operation.inputs), made.shape, made.record.dtype, None, told, 1)


def _scale(operation: Operation) -> Step | None:
    """Paddle's product with a number, or sum with one; None for both at once."""
    factor, shift = float(operation.arguments.get("scale", 1)), float(operation.arguments.get("bias", 0))
    if not shift:
        return _step(operation, "multiply", [*operation.inputs, factor])
    if factor != 1:
        return None
    return _step(operation, "add", [*operation.inputs, shift])


def _transpose(operation: Operation) -> Step | None:
    """Another order of all axes."""
    perm = _listed(operation, "perm", "dims")
    if perm is None or len(perm) != len(operation.inputs[0].shape):
        return None
    return _step(operation, "transpose", perm=tuple(perm))


def _clip(operation: Operation) -> Step | None:
    """Between numbers; None where a bound is a value."""
    limits: dict[str, float] = {}
    for key in ("min", "max"):
        limit = operation.arguments.get(key)
        if isinstance(limit, (int, float)):
            limits[key] = float(limit)
    if len(limits) + 1 < len(operation.inputs):
        return None
    return _step(operation, "clip", operation.inputs[:1], None, **limits)


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
    """Repeated along axes."""
    times = _listed(operation, "1", "repeats", "dims")
    return None if times is None else _step(operation, "tile", times=tuple(times))


def _matmul(operation: Operation) -> Step | None:
    return _step(operation, "matmul", **{key: operation.arguments.get(key) for key in ("transpose_x", "transpose_y")})


def _einsum(operation: Operation) -> Step | None:
    """Paddle's, which keeps what its gradient needs as further results."""
    equation = operation.arguments.get("1", operation.arguments.get("equation"))
    if not operation.outputs or not operation.inputs or not isinstance(equation, str):
        return None
    return _step(operation, "einsum", equation=equation)


def _masked_fill(operation: Operation) -> Step | None:
    number = operation.arguments.get("value", operation.arguments.get("2"))
    if len(operation.inputs) != _TWO or not isinstance(number, (int, float)):
        return None
    filled, mask = operation.inputs
    return _step(operation, "where", [mask, float(number), filled])


def _added_product(operation: Operation) -> Step | None:
    """PyTorch's product with a bias, which comes first."""
    arguments = operation.arguments
    if len(operation.inputs) != _TWO + 1 or arguments.get("alpha", 1) != 1 or arguments.get("beta", 1) != 1:
        return None
    bias, one, other = operation.inputs
    return _step(operation, "matmul", [one, other, bias])


def _norm(operation: Operation) -> Step | None:
    """A norm of positive, finite order along some axes."""
    arguments = operation.arguments
    order: Any = next((arguments[key] for key in ("ord", "p", "1") if key in arguments), 2.0)
    if not isinstance(order, (int, float)) or not 0 < order < math.inf:
        return None
    given: Any = next((arguments[key] for key in ("dim", "axis", "2") if arguments.get(key) is not None), [])
    listed = given if isinstance(given, list) else [given]
    if any(type(axis) is not int for axis in listed):
        return None
    count = max(len(operation.inputs[0].shape), 1)
    return _step(operation, "norm", operation.inputs[:1], tuple(axis % count for axis in listed) or None, order=float(order))


def _pad(operation: Operation) -> Step | None:
    """With one value; widths by axis from the first (Paddle) or the last (PyTorch)."""
    arguments, count = operation.arguments, len(operation.inputs[0].shape)
    from_first = arguments.get("paddings")
    widths = from_first if from_first is not None else arguments.get("pad")
    if not isinstance(widths, list) or len(widths) % _TWO or len(widths) > _TWO * count:
        return None
    pairs = list(zip(widths[::2], widths[1::2], strict=True))
    rest = [(0, 0)] * (count - len(pairs))
    value = arguments.get("pad_value", arguments.get("value", 0.0))
    by_axis = [*pairs, *rest] if from_first is not None else [*rest, *pairs[::-1]]
    return _step(operation, "pad", operation.inputs[:1], widths=by_axis, value=value)


#: how transforms are scaled, as frameworks write it -> numpy's word for a transform there and for one back
_SCALED = {0: ("backward", "forward"), 1: ("ortho", "ortho"), 2: ("forward", "backward")}


def _fourier(operation: Operation) -> Step | None:
    """A transform; PyTorch counts the ways of scaling, Paddle names them."""
    arguments, name = operation.arguments, _bare(operation)
    axes = arguments.get("dim", arguments.get("1"))
    norm = arguments.get("normalization", arguments.get("2"))
    forward = bool(arguments.get("forward", arguments.get("3", name == "fft_r2c")))
    if not isinstance(axes, list) or not axes:
        return None
    if isinstance(norm, int):
        there, back = _SCALED.get(norm, ("", ""))
        norm = there if forward else back
    length = arguments.get("last_dim_size", arguments.get("4"))
    half = bool(arguments.get("onesided", arguments.get("4", True)))
    told = {"axes": tuple(axes), "norm": norm, "forward": forward, "length": length, "half": half}
    return _step(operation, name, operation.inputs[:1], None, **told)


def _diagonal(operation: Operation) -> Step | None:
    """The part above or below a diagonal."""
    given = operation.arguments.get("diagonal", operation.arguments.get("1", 0))
    if type(given) is not int:
        return None
    return _step(operation, operation.kind, operation.inputs[:1], diagonal=given)


#: operations that make several results, by their own names
_SEVERAL: dict[str, Callable[[Operation], Step | None]] = {
    "cross_entropy_with_softmax": _cross_entropy,
    "einsum": _einsum,
}
#: operations by their own names, and by their kinds
_SPECIAL: dict[str, Callable[[Operation], Step | None]] = {
    "scale": _scale,
    "square": lambda operation: _step(operation, "power", [*operation.inputs, 2.0]),
    "masked_fill": _masked_fill,
    "addmm": _added_product,
    "baddbmm": _added_product,
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
    "p_norm": _norm,
    "linalg_vector_norm": _norm,
    "norm": _norm,
    "pad": _pad,
    "fft_r2c": _fourier,
    "fft_c2r": _fourier,
    "fft_c2c": _fourier,
    "triu": _diagonal,
    "tril": _diagonal,
    "flip": lambda operation: _step(operation, "flip", operation.inputs[:1], _axes(operation)),
    "cumprod": _along("cumprod", None),
    "index_select": _along("index_select", 0),
}


def _number(operation: Operation) -> float | None:
    """The one number of an operation beside its values; None without one."""
    for key in _NUMBER:
        given: Any = operation.arguments.get(key)
        if type(given) in (int, float):
            return float(given)
    return None


def _axes(operation: Operation) -> tuple[int, ...] | None:
    """The axes that an operation goes along, counted from the first; None where it names none."""
    count = max(len(operation.inputs[0].shape), 1)
    for key in ("axis", "dim", "1"):
        given: Any = operation.arguments.get(key)
        listed = given if isinstance(given, list) else [given]
        if listed and all(map(_is_whole, listed)):
            return tuple(axis % count for axis in listed)
    return None


def _is_whole(value: Any) -> bool:
    """Whether an argument is a whole number, and not true or false."""
    return isinstance(value, int) and not isinstance(value, bool)


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
    if not found or any(part is NotImplemented for part in found):
        return None
    return tuple(found)


def _part(part: Any) -> Any:
    """One part of an index, written as text where it is no number."""
    if type(part) is int:
        return part
    if not isinstance(part, str):
        return NotImplemented
    if part == "Ellipsis":
        return Ellipsis
    ends = re.fullmatch(r"slice\((None|-?\d+), (None|-?\d+), (None|-?\d+)\)", part)
    if ends is None:
        return NotImplemented
    return slice(*(None if end == "None" else int(end) for end in ends.groups()))
