"""Which of several alike layers is which, by words, numbers, neighbours and order."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.weights.cheapest_pairing import assign
from paralign.weights.names import Path, Vocabulary, read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from paralign.weights.tensors import Tensor

    Costs = np.ndarray[Any, np.dtype[np.float64]]

#: groups of more units than this go by order alone: the exact assignment takes their cube of steps
MOST = 400

#: what speaks against a pair, at most: other indices, another place in the order of definition (alone, or beside the order of
#: execution), in the order of execution, other neighbours, another number somewhere in the names
INDEX, ORDER, BESIDE, CALLS, NEIGHBOURS, DIGITS = 1.0, 0.6, 0.2, 0.8, 0.6, 0.1

#: places out of order that count in full
FAR = 4

#: evidence, other than order, that decides between two layers
DECIDED = 0.12

#: layers whose kinds are known and differ are no pair
FORBIDDEN = 100.0

#: norms that compute the same with the right groups
NORMS = frozenset({"groupnorm", "instancenorm", "layernorm"})

#: layers that look rows up in a table: one of them reduces the rows of a bag, which a port does by hand
TABLES = frozenset({"embedding", "embeddingbag"})

#: names of layers that have no equal number of fellows must be this near
NEAR = 0.34


@dataclass(eq=False)
class Unit:
    """A layer (or single tensor) that is paired as a whole, and its place in the orders."""

    tensors: list[Tensor]
    place: int
    called: int | None = None

    @property
    def owner(self) -> str:
        """The module that holds it."""
        return self.tensors[0].owner

    @property
    def path(self) -> str:
        """The module's path; for a single tensor its full name."""
        first = self.tensors[0]
        if len(self.tensors) > 1 or first.leaf in ("weight", "bias"):
            return first.owner
        return first.neutral_name


@dataclass
class Group:
    """Units of both sides that fit one another, as they were paired.

    ``evidence`` is what speaks against each pair, order left out; ``names`` the same without the neighbours, which are order in disguise.
    """

    reference: list[Unit]
    candidate: list[Unit]
    pairs: list[tuple[int, int]]
    evidence: Costs | None = None
    names: Costs | None = None

    def decided(self) -> list[tuple[int, int]]:
        """Pairs that more than order speaks for."""
        unsure = {number for component in self.undecided() for number in component}
        return [pair for number, pair in enumerate(self.pairs) if number not in unsure]

    def undecided(self) -> list[list[int]]:
        """Pairs (by number) among which nothing but order decides, in groups of two and more."""
        return self._open(self.evidence)

    def nameless(self) -> list[list[int]]:
        """Pairs among which only order and neighbours decide, in groups of two and more."""
        return self._open(self.names)

    def _open(self, evidence: Costs | None) -> list[list[int]]:
        count = len(self.pairs)
        if count <= 1:
            return []
        if evidence is None:
            return [list(range(count))]
        rows, columns = (np.array(side) for side in zip(*self.pairs, strict=True))
        chosen = evidence[np.ix_(rows, columns)]
        own = np.diag(chosen)
        loss = chosen + chosen.T - own[:, None] - own[None, :]
        return _components(loss < DECIDED)


def _components(linked: np.ndarray[Any, Any]) -> list[list[int]]:
    left = set(range(len(linked)))
    found = []
    while left:
        todo, members = [min(left)], []
        while todo:
            one = todo.pop()
            if one in left:
                left.discard(one)
                members.append(one)
                todo += [int(n) for n in np.flatnonzero(linked[one]) if int(n) in left]
        if len(members) > 1:
            found.append(sorted(members))
    return found


class Likeness:
    """What two models' names, orders and pairs known so far say about further pairs."""

    def __init__(self, reference: Sequence[Tensor], candidate: Sequence[Tensor], *, named: bool = True, ordered: str = "both") -> None:
        self.vocabulary = Vocabulary([t.owner for t in (*reference, *candidate)])
        self.named, self.ordered = named, ordered
        self.twins: dict[str, str] = {}
        self.beside = [_beside(side) for side in (reference, candidate)]

    def match(self, reference: list[Unit], candidate: list[Unit]) -> Group:
        """The best pairs of a group; of unequal numbers only those whose names are near."""
        equal = len(reference) == len(candidate)
        if len(reference) == len(candidate) == 1:
            allowed = _forbidden(reference, candidate)[0, 0] == 0
            return Group(reference, candidate, [(0, 0)] if allowed else [])
        if max(len(reference), len(candidate)) > MOST:
            return Group(reference, candidate, [(i, i) for i in range(len(reference))] if equal else [])
        names = self._names(reference, candidate)
        evidence = names
        if self.twins and self.named:
            evidence = names + NEIGHBOURS * self._strangers(reference, candidate)
        costs = evidence + self._order(reference, candidate)
        if len(reference) <= len(candidate):
            pairs = list(enumerate(assign(costs)))
        else:
            pairs = sorted((row, column) for column, row in enumerate(assign(costs.T)))
        pairs = [(r, c) for r, c in pairs if costs[r, c] < FORBIDDEN]
        if not equal:
            near = self._words(reference, candidate) < NEAR
            pairs = [(r, c) for r, c in pairs if near[r, c]]
        return Group(reference, candidate, pairs, evidence, names)

    def learn(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Remember modules that are a pair, as the neighbours of others."""
        self.twins.update(pairs)

    def _names(self, reference: list[Unit], candidate: list[Unit]) -> Costs:
        evidence = _forbidden(reference, candidate)
        if self.named:
            evidence += self._words(reference, candidate)
            evidence += INDEX * _numbers(reference, candidate, lambda p: p.indices)
            evidence += DIGITS * _numbers(reference, candidate, lambda p: p.numbers)
        return evidence

    def _words(self, reference: list[Unit], candidate: list[Unit]) -> Costs:
        ours, theirs = _distinct(reference), _distinct(candidate)
        table = np.array([[self.vocabulary.distance(one, other) for other in theirs] for one in ours])
        rows = {read(p).words: n for n, p in enumerate(ours)}
        columns = {read(p).words: n for n, p in enumerate(theirs)}
        return np.asarray(table[np.ix_([rows[read(u.path).words] for u in reference], [columns[read(u.path).words] for u in candidate])])

    def _order(self, reference: list[Unit], candidate: list[Unit]) -> Costs:
        defined = _apart(_ranks([u.place for u in reference]), _ranks([u.place for u in candidate]))
        ours, theirs = _calls(reference), _calls(candidate)
        if self.ordered == "definition" or ours is None or theirs is None:
            return ORDER * defined
        executed = _apart(_ranks(ours), _ranks(theirs))
        beside = 0.0 if self.ordered == "calls" else BESIDE
        return CALLS * executed + beside * defined

    def _strangers(self, reference: list[Unit], candidate: list[Unit]) -> Costs:
        """The share of neighbours, before and after, that are no pair."""
        ours, theirs = self.beside
        apart = np.ones((len(reference), len(candidate)))
        for side in (0, 1):
            expected = [self.twins.get(ours[u.owner][side]) for u in reference]
            met = [theirs[u.owner][side] for u in candidate]
            codes = {name: n for n, name in enumerate(dict.fromkeys(met))}
            rows = np.array([codes.get(e, -1) if e is not None else -1 for e in expected])
            apart -= 0.5 * (rows[:, None] == np.array([codes[m] for m in met])[None, :])
        return apart


def _beside(tensors: Sequence[Tensor]) -> dict[str, tuple[str, str]]:
    """Module -> the ones defined before and after it; '' where there is none."""
    owners = ["", *dict.fromkeys(t.owner for t in tensors), ""]
    return {owner: (before, after) for before, owner, after in zip(owners, owners[1:], owners[2:], strict=False)}


def _calls(units: list[Unit]) -> list[int] | None:
    """When each unit is called first; None where that is not known of all."""
    known = [u.called for u in units if u.called is not None]
    return known if len(known) == len(units) else None


def _forbidden(reference: list[Unit], candidate: list[Unit]) -> Costs:
    ours, theirs = ([u.tensors[0].kind for u in units] for units in (reference, candidate))
    return FORBIDDEN * np.array([[_contrary(a, b) for b in theirs] for a in ours], float)


def _contrary(one: str, other: str) -> bool:
    """Whether two kinds of layers are known and cannot stand for each other."""
    if not one or not other or one == other:
        return False
    return not _alike(one, other)


def _alike(one: str, other: str) -> bool:
    """Kinds that can hold the same under other names.

    Linear and convolution by 1; convolutions over more axes than are needed; a group norm of single channels and an instance norm, one of
    all channels and a layer norm; a table whose rows are looked up.
    """
    if {one, other} <= NORMS or {one, other} <= TABLES:
        return True
    return {one[:4], other[:4]} <= {"line", "conv"} and not {one[:8], other[:8]} & {"convtran"}


def _distinct(units: list[Unit]) -> list[str]:
    seen: dict[tuple[str, ...], str] = {}
    for unit in units:
        seen.setdefault(read(unit.path).words, unit.path)
    return list(seen.values())


def _numbers(reference: list[Unit], candidate: list[Unit], of: Callable[[Path], tuple[int, ...]]) -> Costs:
    """1 where the numbers differ, if both sides have the same set of them.

    Else they are counted otherwise and say nothing.
    """
    ours, theirs = ([of(read(u.path)) for u in units] for units in (reference, candidate))
    if set(ours) != set(theirs):
        return np.zeros((len(ours), len(theirs)))
    known = {n: i for i, n in enumerate(dict.fromkeys(ours))}
    rows, columns = (np.array([known[n] for n in side]) for side in (ours, theirs))
    return np.asarray(rows[:, None] != columns[None, :], float)


def _ranks(values: Sequence[int]) -> np.ndarray[Any, Any]:
    return np.argsort(np.argsort(np.array(values), kind="stable"), kind="stable")


def _apart(ours: np.ndarray[Any, Any], theirs: np.ndarray[Any, Any]) -> Costs:
    return np.asarray(np.minimum(1.0, np.abs(ours[:, None] - theirs[None, :]) / FAR))


def grouped(units: Sequence[Unit], key: Callable[[Unit], Any]) -> dict[Any, list[Unit]]:
    """Key -> units, in order."""
    found: dict[Any, list[Unit]] = defaultdict(list)
    for unit in units:
        found[key(unit)].append(unit)
    return found
