"""The values of a program, in settings files and Python, each with its names."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from paralign.repair.proposals import literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from paralign.repair.edited_settings import Settings
    from paralign.repair.edited_source import Source

#: entries of a list that is one value, levels of it, and values of a program
LONGEST, DEEPEST, MOST = 16, 3, 4_000

#: words of names that tell nothing apart
_EMPTY = frozenset({"default", "value", "values", "cfg", "config", "settings", "options", "params", "num", "of", "the", "learning"})

#: words of names that programs write in one way or the other
_SAME = {"lr": "rate", "eps": "epsilon", "wd": "decay", "l2": "decay", "stddev": "std", "bs": "batch", "bn": "norm"}

#: letters of a word from which on it stands for a longer one that begins with it
_BEGINNING = 3

#: likeness of a word and its beginning: ``warm`` may stand for ``warmup``, ``low`` hardly for ``lowest``
SHORTENED = 0.75

#: what names that lead there add to the likeness of two names
AROUND = 0.2


@dataclass(frozen=True)
class Named:
    """A value of a program.

    Args:
        keys: the names that lead to it, and its places in lists.
        value: a number, a text, a truth value, or a list of such.
        home: the number of the file that it stands in.
    """

    keys: tuple[str | int, ...]
    value: Any
    home: int = 0


def of_settings(files: list[Settings], first: int = 0) -> list[Named]:
    """The values of settings files."""
    return [Named(each.keys, each.value, home) for home, file in enumerate(files, first) for each in file.entries if each.value is not ...]


def of_sources(sources: list[Source], first: int = 0) -> list[Named]:
    """The literals of sources that have a name.

    Variables, entries, keywords, defaults, options of a command line.
    """
    found: list[Named] = []
    for home, source in enumerate(sources, first):
        for keys, value in _of_tree(source.tree, ()):
            if len(found) >= MOST:
                return found
            found.append(Named(keys, value, home))
    return found


def plain(node: ast.AST, depth: int = 0) -> Any:
    """The value of a literal or a short list of such; Ellipsis of all else."""
    value = literal(node)
    if isinstance(value, (bool, int, float, str)):
        return value
    if not isinstance(node, (ast.List, ast.Tuple)) or len(node.elts) > LONGEST or depth == DEEPEST:
        return ...
    values = [plain(each, depth + 1) for each in node.elts]
    return ... if ... in values else values


def _of_tree(tree: ast.AST, keys: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Named literals below a node in their order."""
    todo = [(tree, keys)]
    while todo:
        node, keys = todo.pop()
        value = plain(node)
        if value is not ...:
            if keys and isinstance(keys[-1], str):
                yield from _with_entries(keys, value)
            continue
        todo += reversed([(child, inner) for child, inner in _children(node, keys) if not isinstance(child, ast.JoinedStr)])


def _with_entries(keys: tuple[str | int, ...], value: Any) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    yield keys, value
    if isinstance(value, list):
        for number, each in enumerate(value):
            yield from _with_entries((*keys, number), each)


def _children(node: ast.AST, keys: tuple[str | int, ...]) -> Iterator[tuple[ast.AST, tuple[str | int, ...]]]:
    """The parts of a node with the names that lead there."""
    if isinstance(node, ast.keyword):
        yield node.value, (*keys, node.arg or "")
    elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple) and len(target.elts) == len(node.value.elts):
            yield from ((each, (*keys, _name(name))) for name, each in zip(target.elts, node.value.elts, strict=True))
        elif node.value is not None:
            yield node.value, (*keys, _name(target))
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            text = literal(key) if key is not None else None
            yield value, (*keys, text) if isinstance(text, str) else keys
    elif isinstance(node, ast.Call):
        yield from _of_call(node, keys)
    elif isinstance(node, ast.arguments):
        names = [*node.posonlyargs, *node.args]
        pairs = [
            *zip(names[len(names) - len(node.defaults) :], node.defaults, strict=True),
            *zip(node.kwonlyargs, node.kw_defaults, strict=True),
        ]
        yield from ((value, (*keys, name.arg)) for name, value in pairs if value is not None)
    else:
        inner = (node.name,) if isinstance(node, (ast.ClassDef, ast.FunctionDef)) else () if isinstance(node, ast.stmt) else keys
        yield from ((child, inner) for child in ast.iter_child_nodes(node))


def _of_call(node: ast.Call, keys: tuple[str | int, ...]) -> Iterator[tuple[ast.AST, tuple[str | int, ...]]]:
    """The arguments of a call.

    ``get("rate", 0.1)`` and ``add_argument("--rate", default=0.1)`` name theirs.
    """
    said = next((str(text) for text in map(literal, node.args) if _is_option(text)), "")
    yield node.func, keys
    if said:
        inner = (*keys, said.strip("-"))
        yield from ((each, inner) for each in node.args if literal(each) != said)
    else:
        inner = (*keys, _name(node.func))
        yield from ((each, keys) for each in node.args)
    yield from ((keyword, inner) for keyword in node.keywords)


def _is_option(value: Any) -> bool:
    """Whether a literal names a setting: ``rate``, ``--warmup-steps``."""
    return isinstance(value, str) and value.strip("-").replace("-", "_").isidentifier()


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Subscript) and isinstance(text := literal(node.slice), str):
        return text
    return str(getattr(node, "attr", None) or getattr(node, "id", None) or "")


@cache
def words_of(key: str) -> tuple[str, ...]:
    """The words of a name, synonyms alike: ``warmUpSteps`` is warm, up, steps."""
    found = [each.lower() for each in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", key)]
    whole = key.lower().strip("_")
    found = [_SAME[whole]] if whole in _SAME else [_SAME.get(each, each) for each in found]
    return tuple(each for each in found if each not in _EMPTY) or tuple(found)


def likeness(one: tuple[str | int, ...], other: tuple[str | int, ...]) -> float:
    """How like two names are: 0 to 1, and more where the sections are alike too."""
    (own, own_around), (theirs, their_around) = _split(one), _split(other)
    if not own or not theirs or not _share_a_word(own, (*theirs, *their_around)):
        return 0.0
    shares = _share_found(own, (*theirs, *their_around)) + _share_found(theirs, (*own, *own_around))
    around = _share_a_word(own_around, (*their_around, *theirs))
    return shares / 2 + AROUND * around


def _share_a_word(words: Sequence[str], pool: Sequence[str]) -> bool:
    """Whether one of some words that are no numbers stands in a pool too."""
    return any(_is_word(word, each) for word in words if not word.isdigit() for each in pool)


def _share_found(words: Sequence[str], pool: Sequence[str]) -> float:
    """How well words are found in a pool, in the mean: 0 to 1."""
    best = [max((_word_likeness(word, each) for each in pool), default=0.0) for word in words]
    return sum(best) / len(words)


@cache
def _split(keys: tuple[str | int, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words of the last name, with places in lists from 1, and of its sections."""
    last = next((at for at in reversed(range(len(keys))) if isinstance(keys[at], str) and words_of(str(keys[at])) != ()), -1)
    if last > 0 and keys[last] == "default":
        last -= 1
    if last < 0:
        return (), ()
    places = tuple(str(int(key) + 1) for key in keys[last + 1 :] if isinstance(key, int))
    around = tuple(word for key in keys[:last] if isinstance(key, str) for word in words_of(key))
    return (*words_of(str(keys[last])), *places), around


def _is_word(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return one == other or (len(short) >= _BEGINNING and long.startswith(short) and not short.isdigit())


def _word_likeness(one: str, other: str) -> float:
    """1 of one word or several of it, less of a word and its beginning, 0 of others."""
    if one.removesuffix("s") == other.removesuffix("s"):
        return 1.0
    return SHORTENED if _is_word(one, other) else 0.0
