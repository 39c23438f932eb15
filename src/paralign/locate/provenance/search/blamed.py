"""What a search for the first wrong expression names."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from paralign.locate.provenance.values.expression_counterparts import TELLING

if TYPE_CHECKING:
    from paralign.locate.provenance.values.value_graph import Expression


class Order(Enum):
    """On which side of a step's update, or clipping, the candidate does something.

    The reference does something on the other side.
    """

    AFTER_UPDATE = "after the update"
    BEFORE_UPDATE = "before the update"
    AFTER_CLIPPING = "after the clipping"
    BEFORE_CLIPPING = "before the clipping"


@dataclass
class Blamed:
    """An expression at fault, what led from it to the wrong value, and the reference's.

    ``placed``: it is right by itself, and not what the reference takes there. ``due``: what made the reference's value in place of the
    wrong one that the search began with, where that is known. ``note``: what is said of it, '' for what is said of any expression.
    ``is_alone``: all that it was made of was compared and is the reference's. ``order``: what is done in another order, None for an
    expression that makes something wrong; ``is_same_work``: that is the same on both sides, by words and numbers.
    """

    expression: Expression
    chain: list[Expression] = field(default_factory=list)
    reference: Expression | None = None
    placed: bool = False
    due: Expression | None = None
    note: str = ""
    is_alone: bool = False
    order: Order | None = None
    is_same_work: bool = False

    @property
    def is_table(self) -> bool:
        """Whether what is wrong has many numbers: a few may be another way to write a step."""
        last = self.chain[-1] if self.chain else self.expression
        return last.numbers is not None and last.numbers.size >= TELLING

    @property
    def source(self) -> str:
        """The line to look at."""
        return self.expression.source


def blamed(each: Expression, chain: list[Expression], due: Expression | None) -> Blamed | None:
    """The last of a chain that stands in a file of the user's."""
    while chain and (not chain[-1].file or each.kind == "input"):
        chain.pop()
        each = chain[-1] if chain else each
    return Blamed(each, chain[::-1], due) if chain else None
