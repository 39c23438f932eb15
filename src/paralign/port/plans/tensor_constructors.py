"""Calls whose arguments' types choose what they do: ``FloatTensor(…)``, ``x.to(…)``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from paralign.catalogue.binding import bind
from paralign.catalogue.parameters import parse
from paralign.port.plans.call_plan import ByHand, Plan

if TYPE_CHECKING:
    from paralign.port.names.values import Use


#: constructors of tensors by their element types: of sizes, or of data
FILLED = {
    "torch.Tensor": "'float32'", "torch.FloatTensor": "'float32'", "torch.DoubleTensor": "'float64'", "torch.HalfTensor": "'float16'",
    "torch.IntTensor": "'int32'", "torch.LongTensor": "'int64'", "torch.ByteTensor": "'uint8'", "torch.BoolTensor": "'bool'",
    "torch.CharTensor": "'int8'", "torch.ShortTensor": "'int16'", "torch.BFloat16Tensor": "'bfloat16'",
}  # fmt: skip

#: when a constructor that is given a variable raises
_EITHER = "it is given a list or a tuple, which may be a size or data"

#: what is data, and no shape, by its form
_DATA = (ast.List, ast.Tuple, ast.ListComp, ast.BinOp)


#: methods that move and cast at once; what they are given is told apart when they are called, by Paddle as by PyTorch
MOVES = frozenset({"torch.Tensor.to", "torch.nn.Module.to"})

_TO = parse(
    "first=None, second=None, third=None, *, device=None, dtype=None, other=None, tensor=None, non_blocking=False, copy=False, "
    "memory_format=None"
)

#: last names of dtypes: Paddle's layers take one by keyword only
_DTYPES = frozenset({"dtype", "float", "float16", "float32", "float64", "double", "half", "bfloat16"})


def plan_constructor(use: Use) -> Plan:
    """Plan ``torch.FloatTensor(2, 3)``, which sets no elements, or one of a list.

    Raises:
        ByHand: its arguments are not shown.
    """
    dtype, given = FILLED[use.name], use.positional
    if use.keywords or any(isinstance(each, ast.Starred) for each in given):
        raise ByHand("its arguments are not shown one by one")
    bound = bind(parse(", ".join(f"size{at}" for at in range(len(given)))), given, [])
    if len(given) > 1 or (given and isinstance(given[0], ast.Constant) and type(given[0].value) is int):
        sizes = ", ".join(f"{{size{at}}}" for at in range(len(given)))
        return Plan(use.name, bound, template=f"paddle.empty([{sizes}], {dtype})", entries=["conversions"])
    if len(given) == 1 and isinstance(given[0], _DATA):
        return Plan(use.name, bound, template=f"_filled_with({{size0}}, {dtype})", entries=["conversions"])
    if len(given) == 1:
        return Plan(use.name, bound, template=f"_sized_or_filled({{size0}}, {dtype})", entries=["conversions"], refuses=_EITHER)
    return Plan(use.name, bound, template=f"paddle.empty([0], {dtype})", entries=["conversions"])


def plan_move(use: Use) -> Plan:
    """Plan ``x.to(device, dtype)`` in its forms.

    Whether the copy is awaited chooses nothing of the result.

    Raises:
        ByHand: its arguments are not shown, or a copy is asked for.
    """
    bound = bind(_TO, use.positional, use.keywords)
    if bound.open or bound.many or bound.unknown or "third" in bound.given:
        raise ByHand("its arguments are not shown one by one")
    if "copy" in bound.given or "memory_format" in bound.given:
        raise ByHand("a copy or an order in memory is asked for")
    parts = [f"{{{name}}}" for name in ("first", "second") if name in bound.given and not isinstance(bound.value(name), bool)]
    first = bound.given.get("first")
    if use.name == "torch.nn.Module.to" and isinstance(first, ast.Attribute) and first.attr in _DTYPES:
        parts[0] = "dtype={first}"
    parts += [f"{name}={{{name}}}" for name in ("device", "dtype") if name in bound.given]
    parts += [f"{{{name}}}" for name in ("other", "tensor") if name in bound.given]
    return Plan(use.name, bound, template=f"{{self}}.to({', '.join(parts)})", entries=["conversions"])
