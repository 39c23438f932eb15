"""A fix applied to the source of a call.

Arguments added, renamed or left out, another callable, or a whole replacement.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from paralign.catalogue.binding import bind

if TYPE_CHECKING:
    from paralign.catalogue.binding import Bound
    from paralign.catalogue.entries import Entry
    from paralign.catalogue.parameters import Signature

_HOLE = re.compile(r"\{(\w+)\}")

#: what an argument may follow, and what may follow it, without being part of a larger expression; '' is an end of the template
_OPENS, _CLOSES = ("", "(", "[", "{", ",", "="), ("", ")", "]", "}", ",")

#: what makes an equals sign before an argument a comparison
_COMPARES = ("=", "!", "<", ">")


class NotApplicable(ValueError):
    """The fix needs an argument that the call does not show."""


def filled(template: str, bound: Bound) -> str:
    """A template with the reference's arguments in place of ``{name}``.

    An argument that is written with an operator stands in brackets where the template goes on with one: ``1 - {momentum}`` with
    ``1 - keep`` is ``1 - (1 - keep)``.

    Raises:
        NotApplicable: the call does not show one of them, and it has no default.
    """

    def argument(found: re.Match[str]) -> str:
        text = bound.text(found.group(1))
        if text is None:
            raise NotApplicable(found.group(1))
        return f"({text})" if _is_compound(text) and not _stands_alone(found) else text

    return simplified(_HOLE.sub(argument, template))


def _is_compound(text: str) -> bool:
    """Whether an expression would be read otherwise beside an operator."""
    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError:
        return False
    return isinstance(node, ast.BinOp | ast.UnaryOp | ast.BoolOp | ast.Compare | ast.IfExp | ast.Lambda)


def _stands_alone(hole: re.Match[str]) -> bool:
    """Whether brackets, commas or the ends of the template are on both sides of a hole."""
    before, after = hole.string[: hole.start()].rstrip(), hole.string[hole.end() :].lstrip()
    return before[-1:] in _OPENS and before[-2:-1] not in _COMPARES and after[:1] in _CLOSES


def simplified(text: str) -> str:
    """Write a literal for ``not False``, ``1 - 0.1`` and ``'a' == 'a'``."""
    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError:
        return text
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) and isinstance(node.operand, ast.Constant):
        return repr(not node.operand.value)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        left, right = node.left, node.right
        if isinstance(left, ast.Constant) and isinstance(right, ast.Constant) and isinstance(right.value, int | float):
            return repr(round(float(left.value) - right.value, 12))  # type: ignore[arg-type]
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
        sides = node.left, node.comparators[0]
        if all(isinstance(each, ast.Constant) for each in sides):
            return repr(sides[0].value == sides[1].value)  # type: ignore[attr-defined] # constants, as was just asked
    return text


def advice(entry: Entry, bound: Bound) -> str:
    """The fix of an entry for one call, in code.

    Empty where it has none that a program can write.
    """
    fix = entry.fix
    try:
        if fix.code:
            return filled(fix.code, bound)
        parts = [f"{name}={filled(value, bound)}" for name, value in fix.set.items()]
    except NotApplicable:
        return ""
    if fix.call:
        return f"{fix.call}({', '.join([*parts, '…'])})" if parts else f"{fix.call}(…)"
    return ", ".join(parts + [f"without {name}" for name in fix.drop])


def fixed_expression(entry: Entry, torch: Signature) -> str:
    """The example's port with the fix applied: what is executed to prove the fix.

    Raises:
        NotApplicable: the entry has neither a fixed expression nor a fix that fits its example.
    """
    if entry.example.fixed:
        return entry.example.fixed
    reference = ast.parse(entry.example.reference, mode="eval")
    theirs = _call_of(reference, entry.torch)
    if theirs is None:
        raise NotApplicable(entry.torch)
    bound = bind(torch, theirs.args, theirs.keywords)
    if entry.fix.code:
        return ast.unparse(_replaced(reference, theirs, ast.parse(filled(entry.fix.code, bound), mode="eval").body))
    port = ast.parse(entry.naive, mode="eval")
    ours = _call_of(port, entry.paddle)
    if ours is None or not entry.fix.mechanical:
        raise NotApplicable(entry.paddle)
    _edit(ours, entry, bound)
    return ast.unparse(port)


def _edit(call: ast.Call, entry: Entry, bound: Bound) -> None:
    left_out = {*entry.fix.set, *entry.fix.drop}
    call.keywords = [each for each in call.keywords if each.arg not in left_out]
    for name, template in entry.fix.set.items():
        call.keywords.append(ast.keyword(name, ast.parse(filled(template, bound), mode="eval").body))
    if entry.fix.call:
        call.func = ast.parse(entry.fix.call, mode="eval").body


def _call_of(tree: ast.AST, name: str) -> ast.Call | None:
    """The first call whose callable's last name is the given one's."""
    last = name.rpartition(".")[2]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (getattr(node.func, "attr", None) or getattr(node.func, "id", None)) == last:
            return node
    return None


class _Replaced(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.old else self.generic_visit(node)


def _replaced(tree: ast.AST, old: ast.AST, new: ast.AST) -> ast.AST:
    return ast.fix_missing_locations(_Replaced(old, new).visit(tree))
