"""Which argument of a call goes to which parameter, read from source: nothing is called."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from paralign.catalogue.parameters import Kind, Signature, literal

if TYPE_CHECKING:
    from collections.abc import Sequence


class Unreadable:
    """The value of an argument that only a run could tell."""

    def __repr__(self) -> str:
        return "UNREADABLE"


UNREADABLE = Unreadable()


@dataclass
class Bound:
    """A call's arguments by parameter.

    ``open`` says that ``*arguments`` or ``**keywords`` may give any parameter; ``many`` holds arguments beyond the signature.
    """

    signature: Signature
    given: dict[str, ast.expr] = field(default_factory=dict)
    many: list[ast.expr] = field(default_factory=list)
    unknown: dict[str, ast.expr] = field(default_factory=dict)
    open: bool = False

    def value(self, name: str) -> object:
        """The value of an argument, its default, or :data:`UNREADABLE`."""
        if name in self.given:
            return value_of(self.given[name])
        if name in self.unknown:
            return value_of(self.unknown[name])
        if self.open:
            return UNREADABLE
        parameter = self.signature.parameter(name)
        if parameter is None:
            return UNREADABLE
        try:
            return plain(literal(parameter.default))
        except ValueError:
            return UNREADABLE

    def text(self, name: str) -> str | None:
        """The source of an argument, or its default; None where there is neither."""
        if name in self.given:
            return ast.unparse(self.given[name])
        parameter = self.signature.parameter(name)
        if parameter is None or parameter.default in (None, "..."):
            return None
        return parameter.default


def bind(signature: Signature, positional: Sequence[ast.expr], keywords: Sequence[ast.keyword], receiver: ast.expr | None = None) -> Bound:
    """Bind a call's arguments.

    Args:
        signature: of what is called.
        positional: arguments in order.
        keywords: named arguments; one without a name is ``**something``.
        receiver: the object whose method is called, where the signature is the function's: it goes to the first parameter.
    """
    bound = Bound(signature)
    rest = [receiver, *positional] if receiver is not None else list(positional)
    places = [each for each in signature.parameters if each.kind in (Kind.PLAIN, Kind.ARGUMENTS)]
    for at, argument in enumerate(rest):
        if isinstance(argument, ast.Starred):
            bound.open = True
            continue
        if bound.open or at >= len(places) or places[at].kind is Kind.ARGUMENTS:
            bound.many.append(argument)
            places = places[: at + 1]
            continue
        bound.given[places[at].name] = argument
    for each in keywords:
        if each.arg is None:
            bound.open = True
        elif signature.parameter(each.arg) is not None:
            bound.given[each.arg] = each.value
        else:
            bound.unknown[each.arg] = each.value
    return bound


def value_of(node: ast.expr) -> object:
    """The value of an expression where it is a literal, :data:`UNREADABLE` otherwise."""
    try:
        return plain(ast.literal_eval(node))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return UNREADABLE


def plain(value: object) -> object:
    """Lists as tuples, so that ``[0, 0]`` and ``(0, 0)`` are one value."""
    if isinstance(value, list | tuple):
        return tuple(plain(each) for each in value)
    return value
