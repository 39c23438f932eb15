"""Arguments that the reference's call is given and the candidate's is not.

Of the two lines at which the sides part. A value that is a literal is tried by ``repair``; tensors and other names are told here, as a
line of one side tells nothing of where the other has them.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from paralign.adapters._kinds import common_argument, names_of_argument
from paralign.catalogue.lookup import arguments_of
from paralign.catalogue.naming import names, paddle_argument
from paralign.catalogue.parameters import Kind, Signature, stored
from paralign.catalogue.ported_names import full_name
from paralign.locate.source.statements import parsed_line
from paralign.model import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paralign.model import Divergence

#: the rule of the finding
ID = "arguments/left-out"

#: how the catalogue's tables name methods of tensors
_METHODS = "paddle.Tensor."


@dataclass(frozen=True)
class _Call:
    """A call on a line.

    ``is_method``: what stands before its dot is a value and no module.
    """

    node: ast.Call
    is_method: bool

    @property
    def last(self) -> str:
        """The last part of the name, as it is written."""
        return _last(self.node.func)

    @property
    def places(self) -> int:
        """Arguments that are given by their places, the object of a method among them."""
        return len(self.node.args) + self.is_method


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
            found += [(name, *each) for each in _lacking(call, beside)]
    if len(found) != 1:
        return None
    name, keyword, written = found[0]
    return Finding(
        ID,
        f"the reference's call of {name} is given `{keyword.arg}={ast.unparse(keyword.value)}`, the candidate's leaves it out",
        f"give it `{written}`, with the values of the reference's",
    )


def _calls(source: str | None) -> dict[str, _Call]:
    """Find the calls that a line makes, and those that made what it calls.

    By the last part of the name in lower case; those alone that are one of their name.
    """
    known = parsed_line(source)
    if known is None:
        return {}
    modules = _imported(known.tree)
    found: dict[str, list[_Call]] = {}
    for call in _on(known.tree, known.place.line):
        for each in (call, *_makers(known.tree, call.func)):
            is_method = isinstance(each.func, ast.Attribute) and _root(each.func) not in modules
            found.setdefault(_last(each.func).lower(), []).append(_Call(each, is_method))
    return {name: calls[0] for name, calls in found.items() if name and len(calls) == 1}


def _imported(tree: ast.Module) -> set[str]:
    """The names that a file imports."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    return {(alias.asname or alias.name).partition(".")[0] for node in nodes for alias in node.names}


def _root(node: ast.expr) -> str:
    """The name that a dotted name begins with; '' where it begins with another expression."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


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
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _lacking(reference: _Call, candidate: _Call) -> list[tuple[ast.keyword, str]]:
    """Keywords of one call that another of the same function is given in no way.

    Each with what the candidate's function calls it. None where the candidate is given something that the reference is not: that may be
    the argument by another name.
    """
    given = {keyword.arg for keyword in candidate.node.keywords}
    if None in given or any(isinstance(each, ast.Starred) for each in candidate.node.args):
        return []
    if len(candidate.node.args) > len(reference.node.args) or candidate.places > reference.places:
        return []
    mapped = arguments_of(full_name("torch", reference.last))
    signatures = _signatures(candidate)
    found, others = [], set(given)
    for keyword in reference.node.keywords:
        if keyword.arg is None:
            return []
        written = _written(keyword.arg, mapped, signatures, candidate)
        possible = {keyword.arg, *names_of_argument(common_argument(keyword.arg)), *names().arguments.get(keyword.arg, ()), *written}
        others -= possible
        if possible.isdisjoint(given) and written and _is_said(keyword):
            found.append((keyword, written[0]))
    return [] if others else found


def _written(name: str, mapped: dict[str, str], signatures: list[Signature], call: _Call) -> list[str]:
    """What the candidate's function calls an argument.

    Empty where it takes none such, or is given it by its place.
    By the tables of Paddle's names; a function that they do not list takes it as it is.
    """
    if not signatures:
        return [name]
    found: list[str] = []
    for signature in signatures:
        written = paddle_argument(name, mapped, signature)
        if written is None or not (signature.open or written in signature.names or written in signature.accepts):
            continue
        spellings = {written, *names().arguments.get(name, ())}
        places = [each.name for each in signature.parameters if each.kind is Kind.PLAIN]
        if not spellings.isdisjoint(places[: call.places]):
            return []
        found.append(next((each for each in places if each in spellings), written))
    return found


def _signatures(call: _Call) -> list[Signature]:
    """Paddle's callables of a call's name.

    Methods of tensors where a value stands before the dot.
    """
    paddle = stored("paddle")
    fitting = [name for name in _by_last().get(call.last, ()) if name.startswith(_METHODS) is call.is_method]
    return [each for each in map(paddle.signature, fitting) if each.known]


@cache
def _by_last() -> dict[str, list[str]]:
    """Paddle's public names by their last part."""
    found: dict[str, list[str]] = {}
    for name in stored("paddle").texts:
        found.setdefault(name.rpartition(".")[2], []).append(name)
    return found


def _is_said(keyword: ast.keyword) -> bool:
    """Whether an argument changes what is computed and is no literal.

    A literal may be the default; a type or a device is no cause.
    """
    if keyword.arg in names().ignored or keyword.arg == "dtype":
        return False
    try:
        ast.literal_eval(keyword.value)
    except ValueError:
        return True
    return False
