"""Which number of the candidate's fills a tensor by another law, also in a helper."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from paralign.comparison.laws import Family
from paralign.locate.provenance import tracing_back
from paralign.locate.provenance.search import crossed_names
from paralign.locate.provenance.search.blame import Search
from paralign.locate.provenance.search.blamed import Blamed
from paralign.locate.provenance.values.readings import taken_as
from paralign.locate.provenance.values.seen_values import Seen
from paralign.locate.provenance.values.value_graph import COMMON
from paralign.locate.reaching import reached
from paralign.locate.source.call_arguments import is_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from paralign.comparison.laws import Law
    from paralign.context import Context
    from paralign.locate.provenance.tracing_back import Sides
    from paralign.locate.provenance.values.value_graph import Expression, ValueGraph
    from paralign.model import Divergence

#: what a measured scale may be off the number that was written, at least; and of a constant, which is what was written
LEAST, EXACT = 0.01, 1e-6

#: right laws to which a formula comes elsewhere, at least, before an operand is told by what it is there
SEVERAL = 2

#: standard errors of a measured scale within which the number lies
ERRORS = 3.0


def follow(context: Context, wrong: Iterable[tuple[Divergence, tuple[Law, Law]]], right: Sequence[Law] = ()) -> None:
    """Name the lines that write the numbers of wrong laws.

    Both sides' models must be buildable under observation.

    Args:
        context: the check.
        wrong: what is named so far, each with the laws of both sides' tensors.
        right: laws of the candidate's other tensors.
    """
    cases = list(wrong)
    sides = tracing_back.recorded(context, "model") if cases else None
    if sides is None:
        return
    for divergence, laws in cases:
        point = divergence.candidate
        lines = [] if point is None else [line for line in (point.source, *point.lines) if line]
        found = of_laws(sides, laws, right, lines)
        tracing_back.name(divergence, found if found is not None else _of_table(sides, divergence, laws))


def _of_table(sides: Sides, divergence: Divergence, laws: tuple[Law, Law]) -> Blamed | None:
    """The expression that made other numbers of a tensor that no seed changes on either side."""
    pair = divergence.pair
    if any(law.drawn for law in laws) or pair is None or pair.candidate is None or pair.reference is None:
        return None
    found = (_root(graph, record.name) for graph, record in ((sides.candidate, pair.candidate), (sides.reference, pair.reference)))
    own, other = found
    return tracing_back.of_value(sides, own, other) if own and other else None


def _root(graph: ValueGraph, name: str) -> str:
    """Under which name a tensor of the model is recorded; '' where it is not."""
    known = [root for root in (f"parameter:{name}", f"buffer:{name}") if graph.root(root) is not None]
    return known[0] if known else ""


def of_laws(sides: Sides, laws: tuple[Law, Law], right: Sequence[Law] = (), lines: Sequence[str] = ()) -> Blamed | None:
    """The expression of the law's number that the reference's building has nowhere.

    None unless it is one.

    Args:
        sides: what was recorded of both constructions.
        laws: that the reference's and the candidate's tensor follow.
        right: laws of the candidate's other tensors: a number that one of these has is right, where it is taken here is not.
        lines: that constructed the layer of the candidate's tensor; none where they are not known.
    """
    defaults, everything = sides.reference.expressions, Seen(sides.reference.expressions)
    twin = next(iter(_near(sides.reference.expressions, laws[0])[::-1]), None)
    found: dict[str, Blamed] = {}
    for each in _leading_on(_near(sides.candidate.expressions, laws[1]), lines):
        if everything.has(each) is not False or any(_near([each], law) for law in right):
            continue
        number, due = _without_sign(each), None if twin is None else _without_sign(twin)
        if laws[1].family is not Family.UNIFORM and (number is each) != (due is twin):
            due = None  # of a bound the sign says nothing, of a value it does
        blamed = Search(number, due, everything if due is None else None, defaults).first()
        if blamed is not None:
            blamed = _handed_over(sides, blamed, laws[0], everything)
            found[blamed.source] = blamed
    if not found:
        return _otherwise_elsewhere(sides, laws[1], right, lines)
    return next(iter(found.values())) if len(found) == 1 else None


def _otherwise_elsewhere(sides: Sides, law: Law, right: Sequence[Law], lines: Sequence[str]) -> Blamed | None:
    """The one operand of a helper's formula that is another where that gives right laws.

    None unless the other operands vary there too: then what the helper is given here is at fault.
    """
    everything, found = Seen(sides.reference.expressions), {}
    for each in _near(sides.candidate.expressions, law):
        if each.is_copy or not _is_handed_from(each, lines):
            continue
        same = [e for e in sides.candidate.expressions if e.site == each.site and not _is_handed_from(e, lines)]
        others = [e for e in same if any(_near([e], one) for one in right)]
        odd = [inner for role, inner in each.values if _is_odd(inner, [taken_as(other, role) for other in others])]
        if len({_number(other) for other in others}) < SEVERAL or len(odd) != 1 or everything.has(odd[0]) is not False:
            continue
        blamed = Search(odd[0], None, everything, sides.reference.expressions).first()
        if blamed is not None:
            found[blamed.source] = blamed
    return next(iter(found.values())) if len(found) == 1 else None


def _is_handed_from(each: Expression, lines: Sequence[str]) -> bool:
    """Whether an expression takes something that one of some lines hands over."""
    return any(inner.source in lines for inner in reached(each.operands, lambda e: e.operands if e.is_copy else []))


def _is_odd(inner: Expression, elsewhere: Sequence[Expression | None]) -> bool:
    """Whether an operand is not what it always is at other evaluations."""
    numbers = {_number(other) for other in elsewhere if other is not None}
    return len(numbers) == 1 and None not in numbers and is_number(inner.scalar) and _number(inner) not in numbers


def _number(each: Expression) -> float | None:
    return round(float(each.scalar), 12) if is_number(each.scalar) else None


def _handed_over(sides: Sides, blamed: Blamed, due: Law, everything: Seen) -> Blamed:
    """The call that gives a helper another of its own parameters, where that explains the law."""
    written, slack = _numbers(due)

    def is_right(number: float) -> bool:
        return any(math.isclose(number, each, rel_tol=slack) for each in written) or everything.has_numbers(np.array([number]))

    call = crossed_names.place(blamed.chain, sides.candidate.expressions, is_right)
    return blamed if call is None else Blamed(call, [call, *blamed.chain], blamed.reference, placed=True)


def _near(expressions: Iterable[Expression], law: Law) -> list[Expression]:
    """The numbers of a program that may be that of a law."""
    written, slack = _numbers(law)
    return [each for each in expressions if _is_one_of(each, written, slack)]


def _leading_on(numbers: Sequence[Expression], lines: Sequence[str]) -> list[Expression]:
    """The numbers that lead to the lines of a tensor's layer, else to any tensor.

    A number that does neither is near the law's by chance.
    """
    if not lines:
        return list(numbers)
    led = {each: list(reached([each], lambda e: e.users)) for each in numbers}
    constructing = [each for each in numbers if any(user.source in lines for user in led[each])]
    return constructing or [each for each in numbers if any(_fills_a_tensor(user) for user in led[each])]


def _without_sign(each: Expression) -> Expression:
    """The number itself where only its sign was changed, as for a uniform law's bound."""
    return each.values[0][1] if each.kind == "operation" and each.label == "USub" else each


def _fills_a_tensor(each: Expression) -> bool:
    """Whether a call makes a tensor or is given one."""
    return each.kind == "call" and any(inner.mark[0] == "a" for inner in (each, *each.operands))


def _numbers(law: Law) -> tuple[list[float], float]:
    """The numbers that a program may have written for a law, and the slack of measuring."""
    if law.family is Family.CONSTANT:
        return [law.mean], EXACT
    slack = max(LEAST, ERRORS * law.error)
    return ([law.high, law.low] if law.family is Family.UNIFORM else [law.std, law.scale]), slack


def _is_one_of(each: Expression, written: list[float], slack: float) -> bool:
    """Whether an expression is a number of the user's program near one of some."""
    if not is_number(each.scalar) or each.scalar in COMMON or each.kind == "input":
        return False
    return any(number and math.isclose(float(each.scalar), number, rel_tol=slack) for number in written)
