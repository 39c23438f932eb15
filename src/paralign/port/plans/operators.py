"""Templates of operators as calls of one function, for tensors of several types."""

from __future__ import annotations

import ast
import re

#: operators as they are written
SIGNS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip

#: operators of bits, which Paddle refuses beside a number too
OF_BITS = frozenset({"&", "|", "^", "<<", ">>"})

#: functions that PyTorch refuses tensors of several types too
OF_ONE_TYPE = frozenset({"torch.lerp", "torch.Tensor.lerp"})

_HOLE = re.compile(r"\{(\w+)\}")


def parsed(template: str) -> ast.expr:
    """A template as an expression."""
    return ast.parse(_HOLE.sub(r"_hole_\1", template), mode="eval").body


def is_operator(template: str) -> bool:
    """Whether a template is operators of its arguments alone."""
    if "{*}" in template or not template.startswith("{"):
        return False
    whole = parsed(template)
    parts = (ast.BinOp, ast.Compare, ast.Name, ast.operator, ast.cmpop, ast.expr_context)
    return isinstance(whole, ast.BinOp | ast.Compare) and all(isinstance(each, parts) for each in ast.walk(whole))


def as_calls(template: str) -> str:
    """A template's operators as calls of one function.

    >>> as_calls("{input} + {alpha} * {other}")
    "_mixed('+', {input}, _mixed('*', {alpha}, {other}))"
    """

    def written(node: ast.expr) -> str:
        if isinstance(node, ast.BinOp):
            return f"_mixed({SIGNS[type(node.op)]!r}, {written(node.left)}, {written(node.right)})"
        if isinstance(node, ast.Compare):
            return f"_mixed({SIGNS[type(node.ops[0])]!r}, {written(node.left)}, {written(node.comparators[0])})"
        return ast.unparse(node)

    return re.sub(r"_hole_(\w+)", r"{\1}", written(parsed(template)))
