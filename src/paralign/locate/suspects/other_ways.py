"""Operations that a side does in one element type alone.

Its code branches on the type, and float64 shows another program.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from paralign.adapters._kinds import MOVES
from paralign.dtypes import is_floating

if TYPE_CHECKING:
    from paralign.locate.runs.dataflow import Graph, Operation

#: numbers from here on, and below its inverse, are the ends of an element type's range
_ENDS = 1e30

#: the end of float16's range, which is none of a wider type's
_HALF = 65504.0

#: numbers from here on are a resolution: ``finfo(x.dtype).eps`` is one, and differs with the element type as it should
_RESOLUTION = 2e-7

#: resolutions of float16 and bfloat16, and the least normal number of the first
_HALVES = frozenset({2.0**-10, 2.0**-7, 2.0**-14})


#: kernels of recurrent layers that a framework has for some element types, or some devices
_CHOSEN = frozenset({"mkldnn_rnn_layer", "_cudnn_rnn", "miopen_rnn"})


@dataclass(frozen=True)
class OtherWay:
    """The first operation of a native run that the same side does not do in float64."""

    op: str
    source: str
    module: str


def other_way(double: Graph, native: Graph) -> OtherWay | None:
    """The first operation that one of a side's two runs alone does.

    One that both do with other arguments counts too; it has a line of the user's.

    Casts and moves are left out, and so are arguments that name an element type or an end of its range. Recurrent layers are too:
    which kernel they call, or that they call none and compute step by step, is the framework's choice, not the program's.
    """
    kernels = {(o.source, o.module) for o in (*double.operations, *native.operations) if not _CHOSEN.isdisjoint(o.op.split("."))}
    for operation in sorted(_odd(double, native), key=lambda each: each.number):
        if operation.source is None or (operation.source, operation.module) in kernels:
            continue
        if _computes(operation):
            return OtherWay(operation.op, operation.source, operation.module)
    return None


def _odd(double: Graph, native: Graph) -> list[Operation]:
    """The operations that one of two runs alone does, and those done with other arguments."""
    known = double.same_operations(native)
    of_native = {operation.number: operation for operation in native.operations}
    done = set(known.values())
    odd = [o for o in native.operations if o.number not in done]
    odd += [o for o in double.operations if o.number not in known]
    for operation in double.operations:
        if operation.number not in known:
            continue
        again = of_native[known[operation.number]]
        if _differs(operation, again):
            odd.append(again)
    return odd


def _computes(operation: Operation) -> bool:
    """Whether an operation computes real numbers from others.

    Random ones are drawn anew in each run.
    """
    if not operation.inputs or operation.kind in MOVES or operation.random:
        return False
    return any(is_floating(value.record.dtype) for value in operation.outputs)


def _differs(one: Operation, other: Operation) -> bool:
    """Whether the arguments of one operation mean something else in another run."""
    names = one.arguments.keys() | other.arguments.keys()
    return any(not _alike(one.arguments.get(name), other.arguments.get(name)) for name in names)


def _alike(one: Any, other: Any) -> bool:
    """Whether two arguments say the same, each in its element type."""
    if one == other or _is_type(one) or _is_type(other):
        return True
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    if not isinstance(one, int | float) or not isinstance(other, int | float):
        return False
    if _end(float(one)) == _end(float(other)) != "":
        return True
    return math.isclose(one, other, rel_tol=1e-6)


def _is_type(value: Any) -> bool:
    """Whether an argument names an element type."""
    return isinstance(value, str) and re.fullmatch(r"(\w+\.)*(b?float|u?int|complex)\d+|(\w+\.)*dtype.*", value.lower()) is not None


def _end(number: float) -> str:
    """Name what an element type's number is: its resolution, an end of its range, or ''."""
    if 0 < abs(number) < _RESOLUTION or abs(number) in _HALVES:
        return "resolution"
    if abs(number) > _ENDS or abs(number) == _HALF:
        return "lowest" if number < 0 else "highest"
    return ""
