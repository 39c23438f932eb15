"""Arguments that the reference's call is given and the candidate's is not.

Of the two lines at which the sides part. A value that is a literal is tried by ``repair``; tensors and other names are told here, as a
line of one side tells nothing of where the other has them.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from paralign.adapters._kinds import common_argument
from paralign.locate.source.statements import parsed_line
from paralign.model import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paralign.model import Divergence

#: the rule of the finding
ID = "arguments/left-out"


def left_out(divergence: Divergence) -> Finding | None:
    """The argument that the candidate's line lacks in the call of the reference's.

    None without one, or with several: then nothing tells which one it is.
    """
    if None in (divergence.reference, divergence.candidate) or divergence.what != "different":
        return None
    sides = [_calls(None if point is None else point.source) for point in (divergence.reference, divergence.candidate)]
    found = []
    for name, call in sides[0].items():
        beside = sides[1].get(name)
        if beside is not None:
            found += [(name, keyword) for keyword in _lacking(call, beside)]
    if len(found) != 1:
        return None
    name, keyword = found[0]
    return Finding(
        ID,
        f"the reference's call of {name} is given `{keyword.arg}={ast.unparse(keyword.value)}`, the candidate's leaves it out",
        f"give it `{keyword.arg}`, with the values of the reference's",
    )


def _calls(source: str | None) -> dict[str, ast.Call]:
    """Find the calls that a line makes, and those that made what it calls.

    By the last part of the name in lower case; those alone that are one of their name.
    """
    known = parsed_line(source)
    if known is None:
        return {}
    found: dict[str, list[ast.Call]] = {}
    for call in _on(known.tree, known.place.line):
        for each in (call, *_makers(known.tree, call.func)):
            found.setdefault(_last(each.func), []).append(each)
    return {name: calls[0] for name, calls in found.items() if name and len(calls) == 1}


def _on(tree: ast.Module, line: int) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.lineno <= line <= (node.end_lineno or node.lineno):
            yield node


def _makers(tree: ast.Module, function: ast.expr) -> list[ast.Call]:
    """The call that made a layer which is called by its name or attribute.

    Empty unless one assignment alone puts it there.
    """
    text = ast.unparse(function)
    made = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and any(ast.unparse(target) == text for target in node.targets)
    ]
    if len(made) != 1 or not isinstance(made[0], ast.Call):
        return []
    return [made[0]]


def _last(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr.lower()
    return function.id.lower() if isinstance(function, ast.Name) else ""


def _lacking(reference: ast.Call, candidate: ast.Call) -> list[ast.keyword]:
    """Keywords of one call that another of the same function is given in no way."""
    names = {keyword.arg for keyword in candidate.keywords}
    if None in names or any(isinstance(each, ast.Starred) for each in candidate.args) or len(candidate.args) > len(reference.args):
        return []
    given = {common_argument(name) for name in names if name is not None}
    return [each for each in reference.keywords if each.arg is not None and common_argument(each.arg) not in given and _is_said(each.value)]


def _is_said(value: ast.expr) -> bool:
    """Whether a value changes what is computed and is no literal.

    A literal may be the default; a type or a device is no cause.
    """
    try:
        ast.literal_eval(value)
    except ValueError:
        return not ast.unparse(value).rpartition(".")[2].startswith(("float", "int", "bfloat", "bool", "device", "cuda"))
    return False
