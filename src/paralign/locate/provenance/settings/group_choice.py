"""The condition that puts a parameter into the wrong group of an optimizer."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paralign.locate.provenance.search.blamed import Blamed
from paralign.locate.provenance.tracing_back import name, recorded
from paralign.locate.provenance.values.value_graph import behind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from paralign.context import Context
    from paralign.locate.provenance.tracing_back import Sides
    from paralign.locate.provenance.values.value_graph import Expression, ValueGraph
    from paralign.model import Divergence

#: kinds of expressions that decide something where their value is true or false
_DECIDING = frozenset({"operation", "call", "return", "choice"})

#: steps from a condition to what fills its container
_DEEP = 12

#: names of parameters that a note has room for
_SHOWN = 3


@dataclass(frozen=True)
class Choice:
    """Parameters in a wrong group, those rightly there, and those rightly in their own.

    ``others``: of which nothing is to be learnt, but what is said of them is not said of these.
    """

    wrong: Collection[str]
    joined: Collection[str]
    wanted: Collection[str]
    others: Collection[str] = ()


def follow(context: Context, divergence: Divergence | None, choice: Choice) -> None:
    """Name the condition, or its list of names, that put parameters into a wrong group."""
    if divergence is None or not choice.wrong:
        return
    sides = recorded(context, "optimizer")
    found = None if sides is None else of_choice(sides, choice)
    if found is not None:
        listed = ", ".join(sorted(choice.wrong)[:_SHOWN])
        more = f" and {len(choice.wrong) - _SHOWN} more" if len(choice.wrong) > _SHOWN else ""
        name(divergence, found, f"this decides which group {listed}{more} is put into")


def of_choice(sides: Sides, choice: Choice) -> Blamed | None:
    """The first condition that parts the wrong parameters from their own group.

    Where none is rightly in that group, a condition that says the same of all, if there is only one.
    """
    if not choice.wrong:
        return None
    told = _truths(sides.candidate, {*choice.wrong, *choice.joined, *choice.wanted, *choice.others})
    deciding = [held for held in told.values() if _parts(held, choice)]
    if not deciding or (not choice.wanted and len(deciding) > 1):
        return None
    asked_most = max(map(len, deciding))  # a part of a condition is not asked where another part has decided
    whole = [held for held in deciding if len(held) == asked_most]
    first = min((held[each] for held in whole for each in choice.wrong), key=lambda e: e.number)
    if choice.joined and choice.wanted:  # where a function that decides is only taken the wrong way round, nothing is rightly placed
        first = _asked_within(first, whole)
    deeper = _other_texts(first, sides.reference.expressions) or _filled(first)
    return Blamed(deeper, [deeper, first]) if deeper is not None else Blamed(first, [first])


def _asked_within(condition: Expression, deciding: Iterable[dict[str, Expression]]) -> Expression:
    """The first of the deciding conditions that a condition is made of.

    It is that of a function which is asked.
    """
    known = {_site(e) for held in deciding for e in held.values()}
    return min((e for e in behind(condition) if _site(e) in known), key=lambda e: e.number, default=condition)


def _site(each: Expression) -> tuple[str, str, str, int]:
    """What the evaluations of one expression share.

    A line may hold several conditions of one kind.
    """
    return each.source, each.kind, each.label, each.site


def _truths(graph: ValueGraph, names: Collection[str]) -> dict[tuple[str, str, str, int], dict[str, Expression]]:
    """Each condition of the optimizer's building, with what it last said of a parameter."""
    said: dict[tuple[str, str, str, int], dict[str, Expression]] = defaultdict(dict)
    known, current = _ends(names), [""]
    due = graph.sightings()[::-1]
    for each in graph.building():
        while due and due[-1][0] <= each.number:
            seen = _under(due.pop()[1], names)
            current = seen or current
        if isinstance(each.scalar, str) and each.kind != "constant" and (named := known.get(each.scalar)) is not None:
            current = [named]
        elif isinstance(each.scalar, bool) and each.kind in _DECIDING and each.file:
            said[_site(each)].update(dict.fromkeys(current, each))
    return said


def _under(seen: str, names: Iterable[str]) -> list[str]:
    """The parameter that was seen, or those of the module."""
    return [each for each in names if each == seen or (seen.endswith(".") and each.startswith(seen))]


def _ends(names: Iterable[str]) -> dict[str, str | None]:
    """What a part of the model may call a parameter -> its name; None where several end so."""
    found: dict[str, str | None] = {}
    for each in names:
        words = each.split(".")
        for begin in range(len(words)):
            end = ".".join(words[begin:])
            found[end] = each if end not in found else None
    return {**found, **{each: each for each in names}}


def _parts(said: dict[str, Expression], choice: Choice) -> bool:
    """Whether a condition says of the wrong parameters what it says of their group, wrongly."""
    if not all(each in said for each in choice.wrong):
        return False
    values = [{said[each].scalar for each in part if each in said} for part in (choice.wrong, choice.joined, choice.wanted)]
    inside = values[0] | values[1]
    if len(inside) != 1 or inside == values[2]:
        return False
    return len(values[2]) == 1 or not choice.wanted


def _other_texts(condition: Expression, reference: Iterable[Expression]) -> Expression | None:
    """The one list of texts behind a condition that shares some texts with the reference's."""
    known = [set(e.mark[1]) for e in reference if _is_texts(e)]
    strange: dict[str, Expression] = {}
    for each in behind(condition):
        if each.kind != "display" or not _is_texts(each):
            continue
        texts = set(each.mark[1])
        if texts not in known and any(texts & held for held in known):
            strange[each.source] = each
    return next(iter(strange.values())) if len(strange) == 1 else None


def _filled(condition: Expression) -> Expression | None:
    """What fills the container that a condition looks into, where another line makes that."""
    if condition.label not in ("In", "NotIn") or not condition.inputs:
        return None
    each = condition.inputs[-1][1]
    for _ in range(_DEEP):
        inner = _filling(each)
        if inner is None:
            break
        each = inner
    is_made = each.kind in ("display", "call", "operation") and each.file and not _is_texts(each)
    return each if is_made and each.source != condition.source else None


def _filling(each: Expression) -> Expression | None:
    """What hands a value on: a function of the user, or one that all elements come from."""
    if each.kind == "return" or each.is_copy:
        return each.inputs[-1][1] if each.inputs else None
    if each.kind != "display" or not each.inputs:
        return None
    sources = {_gone_through(inner) for role, inner in each.inputs if role == "element"}
    only = next(iter(sources)) if len(sources) == 1 else None
    return only if only is not None and only.kind == "return" else None


def _gone_through(each: Expression) -> Expression | None:
    """What the one value is an element of, that an element of a comprehension is made of."""
    for _ in range(_DEEP):
        if each.kind == "element":
            return next((inner for role, inner in each.inputs if role == "iterable"), None)
        if len(each.inputs) != 1:
            return None
        each = each.inputs[0][1]
    return None


def _is_texts(each: Expression) -> bool:
    values: Sequence[object] = each.mark[1] if each.mark[0] == "l" else ()
    return bool(values) and all(isinstance(value, str) for value in values)
