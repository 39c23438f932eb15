"""An argument that a call leaves to its default.

Of the framework's functions, and of the candidate's own.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from paralign.catalogue.ported_names import argument_names, last_name, signature
from paralign.repair.edits.sentences import lacking
from paralign.repair.proposals import is_number, literal, literal_key, value_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paralign.repair.proposals import Proposal, Site

ID = "argument-left-out"

#: beside other proposals: a value of the same name; a literal of the reference's statement; the other truth value where that statement has
#: it, and elsewhere
NAMED, SPOKEN, TRUE, FLIPPED = 1.4, 1.1, 1.2, 0.4

#: parameters that no number is given to, whatever their default; those that take the number of an axis, and how many axes there may be
TAKING_NO_NUMBERS = frozenset({"name", "out", "dtype", "device", "place", "layout", "generator", "requires_grad", "weight", "reduction"})
AXES, RANK = frozenset({"axis", "dim"}), 6

#: arguments of a call that are tried; literals for each
MOST, FEW = 12, 4


def propose(site: Site) -> Iterator[Proposal]:
    """Each call of the statement with one argument more."""
    spoken = _spoken(site)
    for node in site.nodes:
        if not isinstance(node, ast.Call) or any(isinstance(each, ast.Starred) for each in node.args):
            continue
        given = {keyword.arg for keyword in node.keywords}
        if None in given:
            continue
        left = [each for each in _parameters(site, node)[:MOST] if each[0] not in given]
        for name, default in left:
            for text, weight in _values(site, name, default, spoken):
                yield _with(site, node, f"{name}={text}", weight)


def _spoken(site: Site) -> list[tuple[object, str]]:
    """Literals of the reference's statements that the candidate's lacks.

    Each with the name of the argument that it is given as, or ''.
    """
    own = {literal_key(literal(node)) for node in site.nodes if literal(node) is not ...}
    named: dict[int, str] = {}
    for node in [node for each in site.beside for node in each.nodes]:
        if isinstance(node, ast.keyword) and node.arg:
            named[id(node.value)] = node.arg
    found: dict[tuple[str, object], tuple[object, str]] = {}
    for node in [node for each in site.beside for node in each.nodes]:
        if (value := literal(node)) is not ...:
            found.setdefault(literal_key(value), (value, named.get(id(node), "")))
    return [each for key, each in found.items() if key not in own]


def _parameters(site: Site, node: ast.Call) -> list[tuple[str, object]]:
    """Names and defaults of what a call may be given further.

    Defaults that are no literals are Ellipsis.
    """
    own = site.source.definitions.get(last_name(node))
    if own is not None:
        arguments, skipped = own
        names = [each.arg for each in [*arguments.posonlyargs, *arguments.args]][skipped:]
        defaults = [...] * (len(names) - len(arguments.defaults)) + [literal(each) for each in arguments.defaults][-len(names) or None :]
        rest = list(zip(names, defaults, strict=False))[len(node.args) :]
        further = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        return [*rest, *((each.arg, ... if value is None else literal(value)) for each, value in further)]
    known = signature(site.framework, last_name(node)) if not site.is_foreign(node) else None
    if known is None:
        return []
    return [(each.name, _literal(each.default)) for each in known.parameters[len(node.args) :] if each.default is not None]


def _literal(text: str | None) -> object:
    try:
        return literal(ast.parse(text or "None", mode="eval").body)
    except (SyntaxError, ValueError):
        return ...


def _values(site: Site, name: str, default: object, spoken: list[tuple[object, str]]) -> Iterator[tuple[str, float]]:
    """What a parameter may be given."""
    if name in site.names:
        yield name, NAMED
    elif f"self.{name}" in site.source.text and name in site.identifiers:
        yield f"self.{name}", NAMED / 2
    if isinstance(default, bool):
        yield repr(not default), TRUE if (not default) in [each for each, _ in spoken if isinstance(each, bool)] else FLIPPED
        return
    fitting = [each for each, of in spoken if _fits(name, default, each) and (not of or name in argument_names(of, site.framework))]
    for value in fitting[:FEW]:
        text = value_text(value)
        if text and value != default:
            yield text, SPOKEN


def _fits(name: str, default: object, value: object) -> bool:
    """Whether a value is one that a parameter takes."""
    if name in TAKING_NO_NUMBERS and not isinstance(value, str):
        return False
    if name in AXES and not (isinstance(value, int) and abs(value) < RANK):
        return False
    if isinstance(value, bool) or value is None:
        return False
    if isinstance(default, str) or isinstance(value, str):
        return isinstance(default, str) and isinstance(value, str)
    return is_number(value) and (default is None or is_number(default))


def _with(site: Site, node: ast.Call, argument: str, weight: float) -> Proposal:
    at, comma = site.behind_arguments(node)
    whole = f"{site.source.text[site.source.span(node)[0] : at]}{comma}{argument})"
    return site.inserted(at, f"{comma}{argument}", ID, lacking(argument, whole), weight)
