"""Rules that choose a line, each with an id that reports name and benchmarks leave out."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")

#: ids of rules that are not asked, separated by commas: how a benchmark measures what a rule earns
ABLATE = "PARALIGN_ABLATE"


@dataclass(frozen=True)
class Rule(Generic[Asked, Answer]):
    """One way to choose a line or an operation.

    Args:
        id: kebab-case, unique in the package; part of ``report.json``.
        about: what it knows, in one line.
        propose: its answer about what it is asked, or None where it has nothing to say.
    """

    id: str
    about: str
    propose: Callable[[Asked], Answer | None]


@dataclass(frozen=True)
class Proposal(Generic[Answer]):
    """What a rule answered."""

    rule: str
    answer: Answer


def proposals(rules: Sequence[Rule[Asked, Answer]], asked: Asked) -> list[Proposal[Answer]]:
    """The answers of all rules that have one; rules stand in the order of their strength."""
    return list(_answers(rules, asked))


def strongest(rules: Sequence[Rule[Asked, Answer]], asked: Asked) -> Proposal[Answer] | None:
    """The answer of the first rule that has one; the rules after it are not asked."""
    return next(_answers(rules, asked), None)


def _answers(rules: Sequence[Rule[Asked, Answer]], asked: Asked) -> Iterator[Proposal[Answer]]:
    left_out = ablated()
    for rule in rules:
        if rule.id in left_out:
            continue
        answer = rule.propose(asked)
        if answer:
            yield Proposal(rule.id, answer)


def ablated() -> frozenset[str]:
    """The ids that the environment says to leave out."""
    return frozenset(filter(None, os.environ.get(ABLATE, "").split(",")))
