"""Numbers, texts and truth values of a program, with the names under which they stand."""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from paralign.catalogue.ported_names import word
from paralign.repair.proposals import is_number, literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from paralign.repair.edited_settings import Settings
    from paralign.repair.edited_source import Source


#: numbers that every program has
COMMON = frozenset({0.0, 1.0, 2.0, -1.0})


@dataclass(frozen=True)
class Literals:
    """The numbers, texts and truth values of a program: those under a name, and all."""

    named: dict[str, set[object]]
    every: set[object]


def literals_of(sources: list[Source], settings: Iterable[Settings] = ()) -> Literals:
    """The literals of some sources, and the values of settings files that these read."""
    named: dict[str, set[object]] = defaultdict(set)
    every: set[object] = set()
    for source in sources:
        for name, node in with_names(source.tree):
            value = key_of(literal(node))
            every.add(value)
            if name:
                named[name].add(value)
    for each in (entry for file in settings for entry in file.scalars):
        every.add(key_of(each.value))
        if each.keys and isinstance(each.keys[-1], str):
            named[word(each.keys[-1])].add(key_of(each.value))
    return Literals(dict(named), every)


def with_names(tree: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Literals and the names of keywords, entries and variables under which they stand.

    In a call or a list of several the place is part of the name.
    """
    todo: list[tuple[ast.AST, str]] = [(tree, "")]
    while todo:
        node, name = todo.pop()
        if literal(node) is not ...:
            yield name, node
            continue
        if isinstance(node, ast.arguments):
            todo += _defaults(node)
            continue
        for child, inner in _children(node):
            todo.append((child, inner if inner is not None else name))


def _children(node: ast.AST) -> Iterator[tuple[ast.AST, str | None]]:
    """The parts of a node, each with its name here; None where the outer one holds."""
    if isinstance(node, ast.keyword):
        yield node.value, word(node.arg or "")
    elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        yield from _assigned(node)
    elif isinstance(node, ast.Dict):
        yield from _entries(node)
    elif isinstance(node, ast.List | ast.Tuple):
        for number, each in enumerate(node.elts):
            yield each, None if len(node.elts) == 1 else f"entry {number} of {len(node.elts)}"
    elif isinstance(node, ast.Call):
        called = word(str(getattr(node.func, "attr", None) or getattr(node.func, "id", None) or ""))
        yield node.func, ""
        yield from ((each, f"{called} {number}") for number, each in enumerate(node.args))
        yield from ((keyword, "") for keyword in node.keywords)
    else:
        yield from ((child, "" if isinstance(node, ast.stmt) else None) for child in ast.iter_child_nodes(node))


def _assigned(node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> Iterator[tuple[ast.AST, str]]:
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    if node.value is not None:
        yield node.value, word(str(getattr(target, "attr", None) or getattr(target, "id", None) or ""))


def _entries(node: ast.Dict) -> Iterator[tuple[ast.AST, str]]:
    for key, value in zip(node.keys, node.values, strict=True):
        text = literal(key) if key is not None else None
        yield value, text if isinstance(text, str) else ""


def _defaults(node: ast.arguments) -> list[tuple[ast.AST, str]]:
    names = [*node.posonlyargs, *node.args]
    pairs = list(zip(names[len(names) - len(node.defaults) :], node.defaults, strict=True))
    pairs += [(name, value) for name, value in zip(node.kwonlyargs, node.kw_defaults, strict=True) if value is not None]
    return [(value, word(name.arg)) for name, value in pairs]


def key_of(value: object) -> object:
    """What a literal is compared by: 1 and 1.0 are one number."""
    return float(value) if is_number(value) else value  # type: ignore[arg-type]


def far(have: object, value: object) -> float:
    """How unlike two numbers are, or two texts."""
    if isinstance(have, float) and isinstance(value, float):
        return abs(have - value) / (abs(have) + abs(value) or 1.0)
    return 1.0 - SequenceMatcher(None, str(have), str(value), autojunk=False).ratio()
