"""How a call is written in Paddle, and the reasons why it is not."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from paralign.catalogue.binding import UNREADABLE, plain
from paralign.catalogue.parameters import literal

if TYPE_CHECKING:
    from paralign.catalogue.binding import Bound


#: stands for the object whose method is called
RECEIVER = ast.Name("self", ast.Load())

HOLE = re.compile(r"\{(\w+)\}")


class ByHand(Exception):
    """The call cannot be converted; the text says why."""


class Different(ByHand):
    """The source shows that this very call gives something else in Paddle.

    No other way of calling it helps.
    """


class Overfull(ByHand):
    """PyTorch's method of the name takes fewer arguments: the object may be another one."""


@dataclass
class Plan:
    """How a call is written.

    ``template`` replaces the whole call; otherwise ``port`` is its name, ``keywords`` gives each argument's name in Paddle (None: it stays
    in its place), ``added`` are templates of further arguments, ``removed`` names of arguments that are left out.
    ``refuses`` says when the written call raises.
    """

    port: str
    bound: Bound
    template: str = ""
    keywords: dict[str, str | None] = field(default_factory=dict)
    added: dict[str, str] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    function: bool = False
    entries: list[str] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)
    refuses: str = ""


def as_default(name: str, bound: Bound) -> bool:
    """Whether an argument is given the value that it has without being given."""
    parameter = bound.signature.parameter(name)
    if parameter is None or bound.value(name) is UNREADABLE:
        return False
    try:
        default = plain(literal(parameter.default))
    except ValueError:
        return False
    given = bound.value(name)
    return type(given) is type(default) and given == default
