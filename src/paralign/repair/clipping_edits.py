"""Edits that change how gradients are clipped."""

from __future__ import annotations

import ast
import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paralign.repair.edited_source import Edit

_CLIP = "clip"


def alters_clipping(edit: Edit) -> bool:
    """Whether an edit changes what clips, or the values that this is given.

    Also the value of a name. In Python by the expressions, in settings files by the lines.
    """
    before, after = (content.decode("utf-8", "replace") for content in (edit.before, edit.applied()))
    try:
        trees = [ast.parse(text) for text in (before, after)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        changed = [line for line in difflib.ndiff(before.splitlines(), after.splitlines()) if line[:1] in "+-"]
        return any(_CLIP in line.lower() for line in changed)
    words = {word for tree in trees for word in _bounds(tree)}
    first, second = (sorted(_expressions(tree, words)) for tree in trees)
    return first != second


def _clips(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return _CLIP in _last(node.func).lower()
    return isinstance(node, ast.keyword) and _CLIP in (node.arg or "").lower()


def _last(node: ast.AST) -> str:
    return str(getattr(node, "attr", None) or getattr(node, "id", ""))


def _bounds(tree: ast.Module) -> Iterator[str]:
    """Names that are handed to what clips, such as that of a bound."""
    for node in ast.walk(tree):
        given: list[ast.expr] = []
        if isinstance(node, ast.keyword) and _clips(node):
            given = [node.value]
        elif isinstance(node, ast.Call) and _clips(node):
            given = [*node.args, *(each.value for each in node.keywords)]
        yield from (_last(each) for each in given if isinstance(each, ast.Name | ast.Attribute))


def _expressions(tree: ast.Module, words: set[str]) -> Iterator[str]:
    """What clips in a file, and what is assigned to names of clippings and of their bounds."""
    for node in ast.walk(tree):
        if _clips(node):
            yield ast.unparse(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [_last(target) for target in targets]
            if any(name in words or _CLIP in name.lower() for name in names):
                yield ast.unparse(node)
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if key is not None and _CLIP in ast.unparse(key).lower():
                    yield ast.unparse(value)
