"""Whether an optimizer of the program's own treats all elements of a weight alike.

A Linear's weight lies the other way round in Paddle: a step that looks at rows, columns or shapes would be another one there.
"""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

#: operations of each element alone, as methods or functions of ``torch``; in place where an underscore follows
_OF_ELEMENTS = frozenset({
    "abs", "add", "addcdiv", "addcmul", "as_tensor", "clamp", "clamp_max", "clamp_min", "clip", "clone", "contiguous", "copy", "detach",
    "dim", "div", "double", "empty_like", "enable_grad", "eq", "exp", "fill", "float", "floor", "full_like", "ge", "gt", "is_tensor",
    "isfinite", "isinf", "isnan", "item", "le", "lerp", "log", "log1p", "logical_and", "logical_not", "logical_or", "lt", "masked_fill",
    "maximum", "minimum", "mul", "multiply", "nan_to_num", "ne", "neg", "ndimension", "no_grad", "nelement", "numel", "ones_like", "pow",
    "reciprocal", "requires_grad", "rsqrt", "sgn", "sigmoid", "sign", "sqrt", "square", "sub", "tanh", "tensor", "to", "type", "type_as",
    "where", "zero", "zeros_like",
})  # fmt: skip

#: operations of all elements together, without an axis
_OF_ALL = frozenset({"all", "any", "max", "mean", "min", "norm", "prod", "std", "sum", "var"})

#: methods of Python's own objects and of optimizers
_PLAIN = frozenset({
    "append", "extend", "format", "get", "index", "insert", "items", "keys", "pop", "setdefault", "startswith", "step", "update", "values",
    "zero_grad",
})  # fmt: skip

#: attributes that tell of rows and columns
_OF_AXES = frozenset({"H", "T", "mH", "mT", "shape", "strides"})

#: arguments that name an axis
_AXES = frozenset({"axis", "dim", "dims", "keepdim"})


def looks_at_axes(node: ast.ClassDef, module: ast.AST) -> str:
    """What in an optimizer's class may tell a row from a column; '' where nothing does.

    Functions of the module that it calls are looked at too; any other call counts, because it may.
    """
    functions = {each.name: each for each in ast.walk(module) if isinstance(each, ast.FunctionDef)}
    methods = {each.name for each in ast.walk(node) if isinstance(each, ast.FunctionDef)}
    waiting: list[ast.AST] = [node]
    seen = {node.name}
    while waiting:
        scope = waiting.pop()
        taken = {each.arg for each in ast.walk(scope) if isinstance(each, ast.arg)}
        for each in _parts(scope):
            called = each.func.id if isinstance(each, ast.Call) and isinstance(each.func, ast.Name) else ""
            if called in functions and called not in taken:
                if called not in seen:
                    seen.add(called)
                    waiting.append(functions[called])
            elif not (called and (called in taken or hasattr(builtins, called))) and _is_of_axes(each, methods):
                return ast.unparse(each)
    return ""


def _parts(scope: ast.AST) -> Iterator[ast.AST]:
    """All of a class or function but its annotations."""
    waiting = [scope]
    while waiting:
        part = waiting.pop()
        yield part
        for name, value in ast.iter_fields(part):
            if name not in ("annotation", "returns"):
                waiting += [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, ast.AST)]


def _is_of_axes(node: ast.AST, methods: set[str]) -> bool:
    """Whether an expression may tell a row from a column."""
    if isinstance(node, ast.Subscript):
        return _is_part(node)
    if isinstance(node, ast.Attribute):
        return node.attr in _OF_AXES
    if isinstance(node, ast.BinOp | ast.AugAssign):
        return isinstance(node.op, ast.MatMult)
    return isinstance(node, ast.Call) and _is_call_of_axes(node, methods)


def _is_part(node: ast.Subscript) -> bool:
    """Whether a subscript may be of a tensor's elements.

    ``group["betas"][0]`` and ``state[p]`` are not.
    """
    index = node.slice
    if isinstance(index, ast.Constant) and isinstance(index.value, int):
        return not (
            isinstance(node.value, ast.Subscript | ast.Call) or "beta" in ast.unparse(node.value) or "group" in ast.unparse(node.value)
        )
    return isinstance(index, ast.Slice | ast.Tuple | ast.List | ast.Compare | ast.UnaryOp)


def _is_call_of_axes(node: ast.Call, methods: set[str]) -> bool:
    """Whether a call may tell a row from a column: each one that is not known not to."""
    func = node.func
    if not isinstance(func, ast.Attribute) or any(each.arg in _AXES for each in node.keywords):
        return True
    owner = ast.unparse(func.value)
    if owner == "math" or owner.startswith("super(") or (owner == "self" and func.attr in methods):
        return False
    if owner == "self" and func.attr == "add_param_group":
        return False
    if func.attr.removesuffix("_") in _OF_ALL:
        spare = len(node.args) - (owner == "torch")
        of_two = func.attr in ("max", "min") and not isinstance(node.args[-1] if node.args else None, ast.Constant | ast.UnaryOp)
        return spare > int(func.attr == "norm" or of_two)
    return not (func.attr.removesuffix("_") in _OF_ELEMENTS | _PLAIN or (owner == "torch" and func.attr.startswith("_foreach_")))
