"""Rules that give the same ways again from names alone.

They are as few and as regular as that allows.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from paralign.weights.byname import first, renamed
from paralign.weights.rules import Drop, Rename, Route, Rules, alike, learn, regular

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from paralign.weights.byname import Way

    Pairs = Sequence[tuple[str, str]]


def exact(ways: Sequence[Way], dropped: Sequence[str]) -> Rules:
    """The rules behind ways that are known.

    :func:`paralign.weights.byname.follow` makes these ways of them again.

    Args:
        ways: of tensors that have a place, from the names in one checkpoint to those in the other.
        dropped: names of tensors that have none.

    >>> from paralign.weights.byname import Way, follow
    >>> ways = [Way("fc.weight", "head.weight", "transpose(1, 0)"), Way("fc.bias", "head.bias"), Way("conv.weight", "conv.weight")]
    >>> rules = exact(ways, ["steps"])
    >>> len(rules.routes), rules.renames, follow(rules, ["fc.weight", "fc.bias", "conv.weight", "steps"]).ways == ways
    (1, (Rename(reference='fc.*', candidate='head.*', count=1),), True)
    """
    counted = Counter(way.source for way in ways)
    groups: dict[tuple[str | None, str | None, tuple[int, ...] | None], list[tuple[str, str]]] = defaultdict(list)
    whole = []
    for way in ways:
        if way.transform or way.into or counted[way.source] > 1:
            groups[way.transform, way.into, way.shape].append((way.source, way.destination))
        else:
            whole.append((way.source, way.destination))
    names = list(dict.fromkeys([*(way.source for way in ways), *dropped]))
    renames = min((_mended(learn(whole, shorten=shorten), whole) for shorten in (True, False)), key=len)
    groups[None, None, None] += [(one, other) for one, other in whole if first(renames, one) != other]
    routes = []
    for (transform, into, shape), pairs in groups.items():
        routes += [Route(r.reference, r.candidate, transform, into, r.count, shape) for r in _sound(pairs, names)]
    drops = [Drop("reference", rule.reference) for rule in _sound([(name, name) for name in dropped], names)]
    return Rules(tuple(renames), tuple(routes), tuple(drops), "keep")


def _sound(pairs: Pairs, names: Iterable[str]) -> list[Rename]:
    """Patterns for these pairs that speak of no other name.

    A pair of its own where a pattern would.
    """
    known, others = set(pairs), set(names)
    found: list[Rename] = []
    for members in alike(pairs):
        rules = regular(members)
        if _reach(rules, others) <= known:
            found += rules
        else:
            found += [Rename(one, other, 1) for one, other in members]
    return found


def _reach(rules: Sequence[Rename], names: Iterable[str]) -> set[tuple[str, str]]:
    """The names that rules speak of, each with what a rule makes of it."""
    reached = set()
    for rule in rules:
        for name in names:
            target = rule.applied(name)
            if target is not None:
                reached.add((name, target))
    return reached


def _mended(rules: list[Rename], pairs: Pairs) -> list[Rename]:
    """The rules, the most special first, with others before them for what they lead elsewhere.

    Without those that are not needed.
    """
    rules = sorted(rules, key=lambda r: (r.reference.endswith(".*"), -len(r.reference)))
    wrong = [(one, other) for one, other in pairs if first(rules, one) != other]
    rules = _sound(wrong, [one for one, _ in pairs]) + rules
    leading = {_leading(rules, one) for one, _ in pairs}
    return [rule for number, rule in enumerate(rules) if number in leading]


def _leading(rules: Sequence[Rename], name: str) -> int | None:
    """The number of the rule that a name follows: the first that speaks of it."""
    for number, rule in enumerate(rules):
        if renamed(rule, name) is not None:
            return number
    return None
