"""What an expression's form tells: a name, an item, a number, a program's own settings."""

from __future__ import annotations

import ast

#: methods that change every element alike
_ALIKE = frozenset({"normal_", "zero_", "uniform_", "fill_", "requires_grad_", "numel", "nelement"})

#: methods that change every element alike where they are given a number
_ALIKE_BY_NUMBER = frozenset({"add_", "div_", "mul_", "pow_", "sub_"})


#: what the place of an item in a list or dictionary is made of
_OF_AN_ITEM = (ast.Name, ast.Constant, ast.UnaryOp, ast.BinOp, ast.operator, ast.unaryop, ast.expr_context)

#: how programs call what holds their own settings, which are no layers
_SETTINGS = ("args", "cfg", "config", "conf", "flags", "hparams", "opt", "options", "opts", "params", "settings")


def is_dotted(node: ast.expr) -> bool:
    """Whether an expression is a name, or attributes of one: it may be written twice."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def is_told_twice(node: ast.expr) -> bool:
    """Whether an expression may be written twice: a name, attributes and items of one."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Subscript) and not all(isinstance(each, _OF_AN_ITEM) for each in ast.walk(node.slice)):
            return False
        node = node.value
    return isinstance(node, ast.Name)


def is_kept_form(node: ast.expr) -> bool:
    """Whether an expression is a name, or what attributes and keys that are texts keep of one."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Subscript) and not isinstance(getattr(node.slice, "value", None), str):
            return False
        node = node.value
    return isinstance(node, ast.Name)


def is_text(node: ast.expr) -> bool:
    """Whether an expression is a text by its form: what it is the key of is a dictionary."""
    if isinstance(node, ast.BinOp):
        return is_text(node.left) or (isinstance(node.op, ast.Add) and is_text(node.right))
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def is_alike(call: ast.AST) -> bool:
    """Whether a method changes every element alike: its arguments are numbers by their form."""
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr in _ALIKE:
        return True
    given = [*call.args, *[each.value for each in call.keywords]]
    return call.func.attr in _ALIKE_BY_NUMBER and all(map(_is_number, given))


def _is_number(node: ast.expr) -> bool:
    """Whether an expression is made of literal numbers alone."""
    parts = (ast.Constant, ast.UnaryOp, ast.BinOp, ast.operator, ast.unaryop)
    plain = all(isinstance(each, parts) for each in ast.walk(node))
    return plain and all(isinstance(each.value, int | float) for each in ast.walk(node) if isinstance(each, ast.Constant))


def is_setting(node: ast.expr) -> bool:
    """Whether an object's name is that of a program's own settings: ``args``, ``self.config``."""
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name.casefold().strip("_").endswith(_SETTINGS)
