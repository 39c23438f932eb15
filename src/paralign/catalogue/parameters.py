"""Signatures of a framework's callables.

The stored tables, or what an interpreter said (``worker/interpreter/signatures.py``).
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from enum import Enum
from functools import cache, cached_property
from pathlib import Path

#: folder of the stored tables, one a package
TABLES = Path(__file__).parent / "tables"

#: packages that a table is stored of
STORED = ("torch", "torchvision", "paddle")


class Kind(Enum):
    """How a parameter takes its argument."""

    PLAIN = "plain"
    KEYWORD = "keyword"
    ARGUMENTS = "arguments"
    KEYWORDS = "keywords"


@dataclass(frozen=True)
class Parameter:
    """One parameter; ``default`` is its text as Python writes it, None where there is none."""

    name: str
    kind: Kind = Kind.PLAIN
    default: str | None = None


@dataclass(frozen=True)
class Signature:
    """The parameters of a callable; ``known`` is False where the framework tells none.

    ``accepts`` are keywords that it takes beside its parameters' names, ``gathers`` says that several arguments may stand for one list.
    """

    parameters: tuple[Parameter, ...] = ()
    known: bool = True
    accepts: frozenset[str] = frozenset()
    gathers: bool = False

    @property
    def names(self) -> list[str]:
        """Names that an argument can be given by."""
        return [each.name for each in self.parameters if each.kind in (Kind.PLAIN, Kind.KEYWORD)]

    @property
    def open(self) -> bool:
        """Whether it takes keywords that it does not list."""
        if not self.known:
            return True
        return any(each.kind is Kind.KEYWORDS for each in self.parameters)

    def parameter(self, name: str) -> Parameter | None:
        """The parameter of a name."""
        for each in self.parameters:
            if each.name == name:
                return each
        return None


@dataclass(frozen=True, eq=False)
class Table:
    """All callables of one package in one version."""

    package: str
    version: str
    texts: dict[str, str] = field(repr=False)

    def __contains__(self, name: object) -> bool:
        return name in self.texts

    def signature(self, name: str) -> Signature:
        """The signature of a callable; unknown for names that are not in the table."""
        return parse(self.texts.get(name, "..."))

    @cached_property
    def homes(self) -> frozenset[str]:
        """Modules and classes whose members are listed."""
        return frozenset(name.rpartition(".")[0] for name in self.texts)

    def members(self, home: str) -> list[str]:
        """Names listed below a module or a class."""
        head = home + "."
        return [name[len(head) :] for name in self.texts if name.startswith(head) and "." not in name[len(head) :]]


def read_table(text: str, package: str = "") -> Table:
    """Read what ``worker/interpreter/signatures.py`` prints.

    Args:
        text: its lines.
        package: the package, where the first line does not name it.
    """
    version = ""
    texts: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("# "):
            package, _, version = line[2:].partition(" ")
            continue
        name, bracket, rest = line.partition("(")
        inside, end, accepted = rest.rpartition(")")
        if bracket and end:
            texts[name] = inside + accepted
    return Table(package, version, texts)


@cache
def stored(package: str) -> Table:
    """The table that comes with paralign; empty for a package that none is stored of."""
    path = TABLES / f"{package}.txt"
    return read_table(path.read_text(encoding="utf-8"), package) if path.is_file() else Table(package, "", {})


@cache
def parse(text: str) -> Signature:
    """Read a list of parameters, and what follows ``~``.

    >>> [each.name for each in parse("x, axis=None, *, out=None").parameters]
    ['x', 'axis', 'out']
    """
    text, tilde, accepted = text.partition(" ~ ")
    words = frozenset(accepted.split()) if tilde else frozenset()
    if text == "...":
        return Signature((), False, words - {"*"}, "*" in words)
    parameters = []
    kind = Kind.PLAIN
    for part in _parts(text):
        name, _, default = part.partition("=")
        if name.startswith("**"):
            parameters.append(Parameter(name[2:], Kind.KEYWORDS))
        elif name.startswith("*"):
            if len(name) > 1:
                parameters.append(Parameter(name[1:], Kind.ARGUMENTS))
            kind = Kind.KEYWORD
        else:
            parameters.append(Parameter(name, kind, default or None))
    return Signature(tuple(parameters), True, words - {"*"}, "*" in words)


def _parts(text: str) -> list[str]:
    """The parameters of a list; commas in brackets and strings do not part them."""
    parts: list[str] = []
    depth = 0
    quote = ""
    start = 0
    for at, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    parts.append(text[start:].strip())
    return [part for part in parts if part]


def literal(text: str | None) -> object:
    """The value of a default; the text's own ``...`` for what is no literal.

    Raises:
        ValueError: the text is no literal.
    """
    if text is None or text == "...":
        raise ValueError(text)
    try:
        return ast.literal_eval(text)
    except SyntaxError as error:
        raise ValueError(text) from error
